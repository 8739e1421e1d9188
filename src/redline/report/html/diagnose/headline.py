"""The headline of the page: what limits the job and by how much, what to do, how sure that is, and why."""

from dataclasses import dataclass

from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings
from redline.findings.pages import page_of
from redline.ledger.job.first_screen import Outline
from redline.report.diagnose.finding_messages import (
    as_fast_text,
    cause_text,
    first_queue_text,
    forecast_of,
    limit_of,
    main_finding,
    phase_text,
    second_cause,
    sentence,
    verdict_sentence,
    without_a_fix,
)
from redline.report.language import _, sentences, spoken


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
    first = main_finding(verdict, findings.findings)
    doubts: list[str] = []
    if first is None:
        text, *why = without_a_fix(verdict, findings.findings, outline)
    else:
        text = sentences([limit_of(verdict, first, outline), _advice(first), forecast_of(first)])
        why = [cause_text(first.code), second_cause(verdict, findings.findings)]
        doubts = list(map(sentence, first.doubts))
    caveats = (*doubts, first_queue_text(verdict, outline))
    return Headline(text=text, why=sentences([phase_text(verdict.phases), *why]), caveats=tuple(filter(None, caveats)))


def _advice(first: Finding) -> str:
    text = {
        Grade.MEASURED: _("{title}: {times} (published results)."),
        Grade.DOCUMENTED: _("{title}: {times} (documented fix)."),
        Grade.HYPOTHESIS: _("{title}: {times} (hypothesis)."),
    }[first.grade]
    return text.format(title=page_of(first.code, spoken()).title, times=as_fast_text(first))
