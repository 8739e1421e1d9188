"""Findings in words: evidence as sentences, what a fix can gain at most, and the verdict on the whole job."""

import re
from collections.abc import Mapping, Sequence

from redline.findings.evidence import Evidence
from redline.findings.finding import OF_KERNELS, Finding, Limit, Verdict
from redline.findings.pages import page_of
from redline.findings.verdict import MOSTLY_RATED, MUCH_LOST, NEAR_ROOF, WORTHWHILE, has_steps
from redline.ledger.accounts import COMMUNICATION, Account
from redline.ledger.job.first_screen import Outline, Unseen
from redline.report.diagnose import loss_messages
from redline.report.language import _, listed, marked, sentence_of, sentences, spoken
from redline.report.text_parts import clipped, percent
from redline.units import format_bytes, format_ns, format_rate

NAME_LIMIT = 80  # letters of a name from a trace, inside a sentence
_MUCH = 0.2  # of the step: a second finding of this bound is in the verdict as well
_SAME = 0.005  # of the step: less apart is shown as one number
_MOST_OF_IT = 0.8  # of the idle time: a finding that explains so much says enough of it
_NOTHING = 0.0005  # of the step: less is shown as 0.0 %
_MANY_TIMES = 10  # as fast: nobody measures a share of the step well enough to say more
_OWN_WORDS = {
    "RL-H25": marked("Up to {share} of the {whole} is Python between steps."),
    "RL-H25 at": marked("Up to {share} of the {whole} is Python between steps, most of it in {place}."),
}
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
    """What the fix can gain at most as the only one: the share that findings are ordered by where none is replayed."""
    if not finding.alone_ns:
        return ""
    if finding.alone_share - finding.share < _SAME:
        return _gain_text(finding)
    if finding.share < _NOTHING:
        return _("{gain}, all of it in other findings too").format(gain=_gain_text(finding))
    return _("{gain}, part of it in other findings too").format(gain=_gain_text(finding))


def _gain_text(finding: Finding) -> str:
    """How many times as fast is said of steps of usual length."""
    known = {"share": percent(finding.alone_share), "times": speedup_text(finding)}
    if finding.of_window or abs(finding.alone_share - finding.steady_share) < _SAME:
        whole = _("window") if finding.of_window else _("step")
        return _("at most {share} of the {whole}, {times} as fast").format(whole=whole, **known)
    if _is_in_long_steps(finding):
        text = _("at most {share} of the average step, mostly in its longest steps: a typical one gets {times} as fast")
        return text.format(**known)
    return _("at most {share} of the average step; a typical step {times} as fast").format(**known)


def _is_in_long_steps(finding: Finding) -> bool:
    return finding.steady_share < finding.alone_share / 2


def times(speedup: float) -> str:
    """4.36 x"""
    if speedup >= 100:
        return _("more than 100 x")
    return _("{times} x").format(times=f"{speedup:.{1 if speedup >= 10 else 2}f}")


def speedup_text(finding: Finding) -> str:
    """At most so many times as fast; no share of a step is measured well enough to tell 20 times from 50."""
    if finding.speedup >= _MANY_TIMES:
        return _("more than {times} x").format(times=_MANY_TIMES)
    return times(finding.speedup)


def as_fast_text(finding: Finding) -> str:
    text = _("at most {times} as fast")
    if finding.speedup >= _MANY_TIMES:
        text = _("possibly {times} as fast")
    return text.format(times=speedup_text(finding))


def findings_title(*, replayed: bool) -> str:
    return _("findings, largest forecast first") if replayed else _("findings, largest possible gain first")


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_sentence(verdict: Verdict, findings: Sequence[Finding], outline: Outline) -> str:
    """The job in half a minute: what limits it, the main cause, and the most that the first fix can gain."""
    if not outline.steps.longest_ns:
        return _("Nothing in the traces takes any time, so there is nothing to diagnose.")
    if not outline.steps.device_window_ns and (unknown := _unknown_device_text(outline)):
        return unknown
    if several := _several_jobs_text(outline):
        return several
    main = main_finding(verdict, findings)
    said = without_a_fix(verdict, findings, outline) if main is None else _limited(verdict, main, outline)
    return sentences([phase_text(verdict.phases), first_queue_text(verdict, outline), *said])


def _unknown_device_text(outline: Outline) -> str:
    """Where a device worked and nothing of that could be used, so that nothing limits the job as far as is known."""
    if any(remark.what in (Unseen.NO_DEVICE_WORK, Unseen.UNKNOWN_DEVICE) for remark in outline.unseen):
        return _("What the device did is not known: none of its work could be used. All that follows is of the host.")
    return ""


def _several_jobs_text(outline: Outline) -> str:
    for remark in outline.unseen:
        if remark.what == Unseen.SEVERAL_JOBS:
            text = _("These are traces of {count:,} jobs or more, recorded hours apart: diagnose each alone.")
            return text.format(count=remark.count)
    return ""


def main_finding(verdict: Verdict, findings: Sequence[Finding]) -> Finding | None:
    """The finding that the verdict rests on; None where none is worth acting on."""
    return next((finding for finding in findings if verdict.worthwhile and finding.code == verdict.first), None)


def without_a_fix(verdict: Verdict, findings: Sequence[Finding], outline: Outline) -> list[str]:
    """Where no finding is worth acting on: the job is well, or what is known of it and what is not."""
    return _healthy(verdict, findings) if verdict.healthy else _not_proven(verdict, findings, outline)


def first_queue_text(verdict: Verdict, outline: Outline) -> str:
    """A caveat of the verdict; "" where all queue time is known."""
    if not verdict.unjudged_share:
        return ""
    text = _(
        "{share} of the {whole} is before the first recorded device work, when the device may have run earlier work: "
        "it is left out here, and shares are of the rest."
    )
    return text.format(share=percent(verdict.unjudged_share), whole=whole_name(outline))


def whole_name(outline: Outline) -> str:
    """What shares are of: a step, or all that was recorded where no steps were recognised."""
    return _("step") if has_steps(outline) else _("window")


def kernels_name(outline: Outline) -> str:
    on_cpu = any(remark.what == Unseen.NO_DEVICE for remark in outline.unseen)
    return _("operators") if on_cpu else _("kernels")


def _limited(verdict: Verdict, first: Finding, outline: Outline) -> list[str]:
    doubts = [sentence(evidence) for evidence in first.doubts]
    return [limit_of(verdict, first, outline), cause_text(first.code), _gain_of(first), *doubts]


def _gain_of(first: Finding) -> str:
    gain = _("Fixing it makes a typical step {times} ({code}).")
    if _is_in_long_steps(first):
        gain = _("It is mostly in the longest steps: fixing it makes a typical one {times} ({code}).")
    if first.of_window:
        gain = _("Fixing it makes the window {times} ({code}).")
    return sentences([gain.format(times=as_fast_text(first), code=first.code), forecast_of(first)])


def forecast_of(first: Finding) -> str:
    """What a replay says that its fix gains, beside the bound; "" where there is none."""
    if first.forecast_ns is None:
        return ""
    if abs(first.alone_share - first.expected_share) < _SAME:
        return _("A replay forecasts the same.")
    text = _("A replay forecasts {share} off the average step.")
    if first.of_window:
        text = _("A replay forecasts {share} off the window.")
    return text.format(share=percent(first.expected_share))


def limit_of(verdict: Verdict, first: Finding, outline: Outline) -> str:
    """What limits the job; what the first finding says is lost, where that is no time of kernels or of communication,
    with the place in the program."""
    if verdict.starved_share or (verdict.limit in groups_of(first) and verdict.limit != Limit.OVERHEAD):
        return limit_text(verdict, outline)
    place = loss_messages.site(first.place) if first.place else ""
    own = _OWN_WORDS.get(f"{first.code} at" if place else first.code)
    lost = _(own) if own is not None else _("Up to {share} of the {whole} is lost.")
    if own is None and place:
        lost = _("Up to {share} of the {whole} is lost, most of it in {place}.")
    lost = lost.format(share=percent(first.alone_share), whole=whole_name(outline), place=place)
    if verdict.limit not in groups_of(first):
        return lost
    if first.alone_share < _MOST_OF_IT * verdict.judged_idle_share:
        return sentences([_idle_text(verdict, outline), lost])
    return _("{limit}: {lost}").format(limit=_overhead_name(outline, verdict), lost=lost[:1].lower() + lost[1:])


def second_cause(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """A second finding that is worth much as well, and is of another kind; "" where there is none."""
    sound = [finding for finding in findings if not finding.is_void]
    if len(sound) < 2 or not verdict.worthwhile or sound[1].share < _MUCH or groups_of(sound[0]) & groups_of(sound[1]):
        return ""
    second = sound[1]
    return _("Also: {cause} Fixing that saves at most {share} of the {whole} ({code}).").format(
        cause=cause_text(second.code),
        share=percent(second.alone_share),
        whole=_("window") if second.of_window else _("step"),
        code=second.code,
    )


def _healthy(verdict: Verdict, findings: Sequence[Finding]) -> list[str]:
    known = {
        "kernels": percent(verdict.kernel_share),
        "roof": percent(verdict.roof_share or 0.0),
        "rated": percent(verdict.rated_share),
    }
    text = _(
        "Healthy: compute takes {kernels} of the step and reaches {roof} of its roof ({rated} of it rated), and "
        "nothing was found to fix."
    )
    if findings:
        text = _(
            "Healthy: compute takes {kernels} of the step and reaches {roof} of its roof ({rated} of it rated), and no "
            "fix saves more than {worth}."
        )
        known["worth"] = percent(max(finding.expected_share for finding in findings))
    said = [text.format(**known)]
    if verdict.math_share is not None:
        text = _("The redline (arithmetic at the machine's peak) is {math} of the step.")
        said.append(text.format(math=percent(verdict.math_share)))
    return said


def _not_proven(verdict: Verdict, findings: Sequence[Finding], outline: Outline) -> list[str]:
    """What is known and what is not, of a job without a finding of weight that is not proven to be well."""
    unsure = next((finding for finding in findings if finding.is_void), None)
    said = [_outside_kernels(verdict, findings, outline)]
    if unsure is not None and unsure.expected_share >= WORTHWHILE:
        text = _("{cause} These traces alone are no reason to act on it ({code}).")
        said += [text.format(cause=cause_text(unsure.code), code=unsure.code), *map(sentence, unsure.doubts)]
    said.append(_of_kernels(verdict, outline))
    if not has_steps(outline):
        said.append(_("No steps were recognised: these are shares of all that was recorded."))
    return said


def _outside_kernels(verdict: Verdict, findings: Sequence[Finding], outline: Outline) -> str:
    known = {
        "lost": percent(verdict.lost_share),
        "whole": whole_name(outline),
        "kernels": kernels_name(outline),
        "worth": percent(findings[0].expected_share) if findings else "",
        "parts": listed(_lost_parts(verdict)),
    }
    if verdict.lost_share < MUCH_LOST:
        text = _("Little time is lost outside {kernels} ({lost} of the {whole}), and nothing was found to fix.")
        if findings:
            text = _("Little time is lost outside {kernels} ({lost} of the {whole}); no fix saves more than {worth}.")
    else:
        text = _("{lost} of the {whole} is lost outside {kernels} ({parts}), and no rule recognises the cause.")
        if findings:
            text = _("{lost} of the {whole} is lost outside {kernels} ({parts}); the largest finding explains {worth}.")
    return text.format(**known)


def _lost_parts(verdict: Verdict) -> list[str]:
    """Those that can be seen, the largest first."""
    parts = (
        (verdict.judged_idle_share, _("idle {share}")),
        (verdict.copy_share, _("copies {share}")),
        (verdict.exposed_share, _("exposed communication {share}")),
    )
    return [text.format(share=percent(share)) for share, text in sorted(parts, reverse=True) if share >= _NOTHING]


def _of_kernels(verdict: Verdict, outline: Outline) -> str:
    """How efficient kernels are, as far as that is known; "" where there are next to none or they are near their
    roof."""
    known = {"kernels": kernels_name(outline), "rated": percent(verdict.rated_share), "whole": whole_name(outline)}
    if verdict.kernel_share < _SAME:
        return ""
    if verdict.rated_share < MOSTLY_RATED:
        return _unrated_text(outline).format(**known)
    if verdict.roof_share is None or verdict.roof_share >= NEAR_ROOF:
        return ""
    of_whole = next(bar.share for bar in outline.waterfall if bar.account == Account.KERNEL_LOSS)
    loss = of_whole / max(1 - verdict.unjudged_share, 1e-9)
    text = _("But {kernels} reach only {roof} of their roof: {loss} of the {whole} is kernel loss.")
    return text.format(roof=percent(verdict.roof_share), loss=percent(loss), **known)


def _unrated_text(outline: Outline) -> str:
    unseen = {remark.what: remark for remark in outline.unseen}
    if Unseen.UNKNOWN_WORK in unseen and unseen[Unseen.UNKNOWN_WORK].detail:
        return _("How efficient the {kernels} are is unknown: no shapes were recorded.")
    if Unseen.NO_PEAK in unseen:
        return _("How efficient the {kernels} are is unknown: no peaks are known for this device.")
    return _("How efficient the {kernels} are is unknown: only {rated} of their time is rated.")


def cause_text(code: str) -> str:
    """The first sentence of the cause on the finding's page, up to a colon, as plain text."""
    cause = re.split(r"\s*(?:: |:$|：)", first_sentence(page_of(code, spoken()).cause))[0]
    return sentence_of(cause.rstrip("。."))


def first_sentence(markdown: str) -> str:
    """As plain text; with the colon where a list or code follows."""
    text = " ".join(_LINK.sub(r"\1", markdown).replace("`", "").split())
    match = _FIRST_SENTENCE.match(text)
    return match[0] if match else text


def limit_text(verdict: Verdict, outline: Outline) -> str:
    if verdict.starved_share:  # the time of operators is then no sign of compute
        starved = _("Starved: for {share} of the step the job has no core to run on.")
        return starved.format(share=percent(verdict.starved_share))
    text = {
        Limit.COMPUTE: _("Compute-bound: {kernels} take {all} of the {whole}, arithmetic at the peak {share}."),
        Limit.MEMORY: _("Memory-bound: {kernels} take {all} of the {whole}, traffic at full bandwidth {share}."),
        Limit.KERNELS: _("Kernel-bound: {kernels} take {all} of the {whole}, and reach {roof} of their roof."),
        Limit.UNRATED: _("Kernel-bound: {kernels} take {all} of the {whole}; how efficient they are is unknown."),
        Limit.COMMUNICATION: _("Communication-bound: {share} of the {whole} is exposed communication."),
    }[verdict.limit]
    return text.format(
        kernels=kernels_name(outline),
        all=percent(verdict.kernel_share),
        whole=whole_name(outline),
        roof=percent(verdict.roof_share or 0.0),
        share=percent(verdict.limit_share),
    )


def _overhead_name(outline: Outline, verdict: Verdict) -> str:
    """After the account that holds most of the overhead, where one does."""
    on_cpu = any(remark.what == Unseen.NO_DEVICE for remark in outline.unseen)
    names = {
        Account.HOST: _("Host-bound") if on_cpu else _("Launch-bound"),
        Account.INPUT: _("Input-bound"),
        Account.SYNC: _("Sync-bound"),
    }
    shares = {bar.account: bar.share for bar in outline.waterfall}
    half = verdict.limit_share / 2
    return next((name for account, name in names.items() if shares.get(account, 0) > half), _("Overhead-bound"))


def _idle_text(verdict: Verdict, outline: Outline) -> str:
    """Where no finding explains most of it."""
    text = _("{limit}: the GPU is idle {share} of the {whole}.")
    if any(remark.what == Unseen.NO_DEVICE for remark in outline.unseen):
        text = _("{limit}: no operator runs {share} of the {whole}.")
    name, share = _overhead_name(outline, verdict), percent(verdict.judged_idle_share)
    return text.format(limit=name, share=share, whole=whole_name(outline))


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
        return set(OF_KERNELS)
    return {Limit.OVERHEAD}
