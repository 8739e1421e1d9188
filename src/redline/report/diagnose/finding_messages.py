"""Findings in words: evidence as sentences, what a fix can gain at most, and the verdict on the whole job."""

import re
from collections.abc import Mapping, Sequence

from redline.analysis.accounts import COMMUNICATION, Account
from redline.analysis.job.first_screen import Outline, Unseen
from redline.findings.evidence import Evidence
from redline.findings.finding import Finding, Limit, Verdict
from redline.findings.pages import page_of
from redline.report.language import _, listed, sentences, spoken
from redline.report.text_parts import clipped, percent
from redline.units import format_bytes, format_ns, format_rate

NAME_LIMIT = 80  # letters of a name from a trace, inside a sentence
_MUCH = 0.2  # of the step: a second finding of this bound is in the verdict as well
_SAME = 0.005  # of the step: less apart is shown as one number
_NOTHING = 0.0005  # of the step: less is shown as 0.0 %
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_FIRST_SENTENCE = re.compile(r".+?(?:。|\.(?=\s|$)|[:：]$)")


# --- evidence ---------------------------------------------------------------------------------------------------------


def sentence(evidence: Evidence) -> str:
    """In the language that is spoken now, its values with their units."""
    return _(evidence.message).format(**{name: _shown(name, value) for name, value in evidence.values.items()})


def _shown(name: str, value: float | str) -> float | str:
    """By the unit that the end of its name says; other numbers get the format that the message gives them."""
    if isinstance(value, str):
        return clipped(value, NAME_LIMIT)
    if name.endswith("_ns"):
        return format_ns(round(value))
    if name.endswith("_share"):
        return percent(value)
    if name.endswith("_bytes_per_s"):
        return format_rate(value, "B")
    if name.endswith("_bytes"):
        return format_bytes(round(value))
    return round(value) if value == round(value) else value


# --- bounds -----------------------------------------------------------------------------------------------------------


def bound_text(finding: Finding) -> str:
    """What the fix can gain at most: beside the other findings, and alone where that is more."""
    if not finding.alone_ns:
        return ""
    if finding.alone_share - finding.share < _SAME:
        return _gain_text(finding, finding.share)
    if finding.share < _NOTHING:
        return _("nothing beyond the other findings; on its own {alone}").format(alone=alone_text(finding))
    return _("at most {share} of the step beyond the other findings; on its own {alone}").format(
        share=percent(finding.share), alone=alone_text(finding)
    )


def alone_text(finding: Finding) -> str:
    """What it can gain as the only fix."""
    return _gain_text(finding, finding.alone_share)


def _gain_text(finding: Finding, share: float) -> str:
    """How many times as fast is said of steps of usual length."""
    known = {"share": percent(share), "times": times(finding.speedup)}
    if abs(finding.alone_share - finding.steady_share) < _SAME:
        return _("at most {share} of the step, {times} as fast").format(**known)
    return _("at most {share} of the average step; a typical step {times} as fast").format(**known)


def times(speedup: float) -> str:
    """4.36 x"""
    if speedup >= 100:
        return _("more than 100 x")
    text = _("{times:.1f} x") if speedup >= 10 else _("{times:.2f} x")
    return text.format(times=speedup)


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_sentence(verdict: Verdict, findings: Sequence[Finding], outline: Outline) -> str:
    """The job in half a minute: what limits it, the main cause, and the most that the first fix can gain."""
    if not outline.steps.longest_ns:
        return _("Nothing in the traces takes any time, so there is nothing to diagnose.")
    worthwhile = findings[0] if findings and verdict.worthwhile else None
    said = without_a_fix(verdict, findings) if worthwhile is None else _limited(verdict, worthwhile, outline)
    return sentences([phase_text(verdict.phases), *said, first_queue_text(outline)])


def without_a_fix(verdict: Verdict, findings: Sequence[Finding]) -> list[str]:
    """Where no finding is worth acting on: the job is well, or what it loses is not explained."""
    return _healthy(verdict, findings) if verdict.healthy else [_unexplained(verdict, findings)]


def first_queue_text(outline: Outline) -> str:
    """A caveat of the verdict; "" where all queue time is known."""
    if not any(remark.what == Unseen.FIRST_QUEUE for remark in outline.unseen):
        return ""
    return _("This leaves out queue time before the first recorded work.")


def _limited(verdict: Verdict, first: Finding, outline: Outline) -> list[str]:
    gain = _("Fixing it makes a typical step at most {times} as fast ({code}).")
    said = [cause_text(first.code), gain.format(times=times(first.speedup), code=first.code)]
    if verdict.limit in groups_of(first):
        return [limit_text(verdict, outline), *said]
    other = _(
        "The largest part of the step is {limit} ({share}), but the largest loss with a known cause is elsewhere."
    )
    return [other.format(limit=limit_name(verdict.limit), share=percent(verdict.limit_share)), *said]


def second_cause(findings: Sequence[Finding]) -> str:
    """A second finding that is worth much as well, and is of another kind; "" where there is none."""
    if len(findings) < 2 or findings[1].share < _MUCH or groups_of(findings[0]) & groups_of(findings[1]):
        return ""
    second = findings[1]
    text = _("Also: {cause} Fixing that saves at most {share} of the step ({code}).")
    cause = cause_text(second.code)
    return text.format(cause=cause, share=percent(second.share), code=second.code)


def _healthy(verdict: Verdict, findings: Sequence[Finding]) -> list[str]:
    known = {"limit": limit_name(verdict.limit), "share": percent(verdict.limit_share)}
    if findings:
        worth = percent(findings[0].share)
        text = _("Healthy: {limit} takes {share} of the step, and no fix saves more than {worth}.")
        said = [text.format(worth=worth, **known)]
    else:
        said = [_("Healthy: {limit} takes {share} of the step, and nothing was found to fix.").format(**known)]
    if verdict.math_share is not None:
        text = _("The redline (arithmetic at the machine's peak) is {math} of the step.")
        said.append(text.format(math=percent(verdict.math_share)))
    return said


def _unexplained(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """Much time is lost, and there is no finding of weight."""
    worth = percent(findings[0].share) if findings else ""
    if verdict.limit == Limit.COMMUNICATION:
        text = _("Exposed communication takes {share} of the step, and no rule recognises the cause.")
        if worth:
            text = _("Exposed communication takes {share} of the step; the largest finding explains {worth}.")
        return text.format(share=percent(verdict.limit_share), worth=worth)
    text = _("The device is idle {share} of the step, and no rule recognises the cause.")
    if worth:
        text = _("The device is idle {share} of the step; the largest finding explains {worth}.")
    return text.format(share=percent(verdict.idle_share), worth=worth)


def cause_text(code: str) -> str:
    """The first sentence of the cause on the finding's page, up to a colon, as plain text."""
    cause = re.split(r"\s*(?:: |:$|：)", first_sentence(page_of(code, spoken()).cause))[0]
    return _("{cause}.").format(cause=cause.rstrip("。."))


def first_sentence(markdown: str) -> str:
    """As plain text; with the colon where a list or code follows."""
    text = " ".join(_LINK.sub(r"\1", markdown).replace("`", "").split())
    match = _FIRST_SENTENCE.match(text)
    return match[0] if match else text


def limit_name(limit: Limit) -> str:
    return {
        Limit.COMPUTE: _("compute"),
        Limit.MEMORY: _("memory bandwidth"),
        Limit.COMMUNICATION: _("communication"),
        Limit.OVERHEAD: _("overhead"),
    }[limit]


def limit_text(verdict: Verdict, outline: Outline) -> str:
    if verdict.limit == Limit.OVERHEAD:
        return _overhead_text(verdict, outline)
    return {
        Limit.COMPUTE: _("Compute-bound: compute takes {share} of the step."),
        Limit.MEMORY: _("Memory-bound: memory traffic takes {share} of the step."),
        Limit.COMMUNICATION: _("Communication-bound: {share} of the step is exposed communication."),
    }[verdict.limit].format(share=percent(verdict.limit_share))


def _overhead_text(verdict: Verdict, outline: Outline) -> str:
    """Named after the account that holds most of the overhead, where one does."""
    on_cpu = any(remark.what == Unseen.NO_DEVICE for remark in outline.unseen)
    texts = {
        Account.HOST: _("Launch-bound: the GPU is idle {share} of the step."),
        Account.INPUT: _("Input-bound: the GPU is idle {share} of the step."),
        Account.SYNC: _("Sync-bound: the GPU is idle {share} of the step."),
    }
    if on_cpu:
        texts = {
            Account.HOST: _("Host-bound: no operator runs {share} of the step."),
            Account.INPUT: _("Input-bound: no operator runs {share} of the step."),
        }
    shares = {bar.account: bar.share for bar in outline.waterfall}
    for account, text in texts.items():
        if shares.get(account, 0) > verdict.limit_share / 2:
            return text.format(share=percent(verdict.idle_share))
    return _("Overhead-bound: {share} of the step is idle or copying.").format(share=percent(verdict.limit_share))


def phase_text(phases: Mapping[str, int]) -> str:
    """Of a serving engine; nothing for others."""
    if not phases:
        return ""
    if len(phases) == 1:
        return {
            "decode": _("All steps are decode steps."),
            "prefill": _("All steps are prefill steps."),
        }.get(next(iter(phases)), _("All steps mix prefill and decode."))
    names = {"decode": _("{count:,} decode"), "prefill": _("{count:,} prefill")}
    counts = (
        names.get(phase, _("{count:,} of both")).format(count=count)
        for phase, count in sorted(phases.items(), key=lambda item: -item[1])
    )
    return _("Serving steps: {phases}.").format(phases=listed(counts))


def groups_of(finding: Finding) -> set[Limit]:
    """What the account that a finding claims most of belongs to."""
    largest = max(finding.accounts, key=lambda account: finding.accounts[account], default="")
    if largest in {str(account) for account in COMMUNICATION}:
        return {Limit.COMMUNICATION}
    if largest in {str(Account.MATH), str(Account.MEMORY), "compute"}:
        return {Limit.COMPUTE, Limit.MEMORY}
    return {Limit.OVERHEAD}
