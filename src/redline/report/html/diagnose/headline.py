"""The headline of the page: what limits the job and by how much, what to do, how sure that is, and why."""

from dataclasses import dataclass

from redline.analysis.job.first_screen import Outline
from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings, Verdict
from redline.findings.pages import page_of
from redline.report.diagnose.finding_messages import (
    cause_text,
    first_queue_text,
    groups_of,
    limit_name,
    limit_text,
    phase_text,
    second_cause,
    times,
    verdict_sentence,
    without_a_fix,
)
from redline.report.language import _, sentences, spoken
from redline.report.text_parts import percent


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Two lines on a screen, four on a phone."""

    text: str
    why: str  # the cause, and a second one that is worth much
    caveats: tuple[str, ...]  # besides the remarks


def headline_of(findings: Findings, outline: Outline) -> Headline:
    verdict = findings.verdict
    if not outline.steps.longest_ns:
        return Headline(text=verdict_sentence(verdict, findings.findings, outline), why="", caveats=())
    first = findings.findings[0] if findings.findings and verdict.worthwhile else None
    if first is None:
        text, *why = without_a_fix(verdict, findings.findings)
    else:
        text = sentences([_limit(verdict, first, outline), _advice(first)])
        why = [cause_text(first.code), second_cause(findings.findings)]
    caveat = first_queue_text(outline)
    return Headline(text=text, why=sentences([phase_text(verdict.phases), *why]), caveats=(caveat,) if caveat else ())


def _limit(verdict: Verdict, first: Finding, outline: Outline) -> str:
    if verdict.limit not in groups_of(first):
        return _("Mostly {limit}: {share} of the step.").format(
            limit=limit_name(verdict.limit), share=percent(verdict.limit_share)
        )
    return limit_text(verdict, outline)


def _advice(first: Finding) -> str:
    text = {
        Grade.MEASURED: _("{title}: at most {times} as fast (published results)."),
        Grade.DOCUMENTED: _("{title}: at most {times} as fast (documented fix)."),
        Grade.HYPOTHESIS: _("{title}: at most {times} as fast (hypothesis)."),
    }[first.grade]
    return text.format(title=page_of(first.code, spoken()).title, times=times(first.speedup))
