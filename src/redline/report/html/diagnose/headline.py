"""The headline of the page: what limits the job and by how much, what to do, how sure that is, and why."""

from dataclasses import dataclass

from redline.analysis.job.first_screen import Outline
from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings, Verdict
from redline.findings.pages import page_of
from redline.report.diagnose.finding_messages import (
    cause_text,
    first_queue_text,
    forecast_of,
    groups_of,
    largest_part,
    limit_text,
    main_finding,
    phase_text,
    second_cause,
    sentence,
    times,
    verdict_sentence,
    whole_name,
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
    first = main_finding(verdict, findings.findings)
    doubts: list[str] = []
    if first is None:
        text, *why = without_a_fix(verdict, findings.findings, outline)
    else:
        text = sentences([_limit(verdict, first, outline), _advice(first), forecast_of(first)])
        why = [cause_text(first.code), second_cause(verdict, findings.findings)]
        doubts = list(map(sentence, first.doubts))
    caveats = (*doubts, first_queue_text(verdict, outline))
    return Headline(text=text, why=sentences([phase_text(verdict.phases), *why]), caveats=tuple(filter(None, caveats)))


def _limit(verdict: Verdict, first: Finding, outline: Outline) -> str:
    if not verdict.starved_share and verdict.limit not in groups_of(first):
        name, share = largest_part(verdict, outline)
        text = _("Mostly {limit}: {share} of the {whole}.")
        return text.format(limit=name, share=percent(share), whole=whole_name(outline))
    return limit_text(verdict, outline)


def _advice(first: Finding) -> str:
    text = {
        Grade.MEASURED: _("{title}: at most {times} as fast (published results)."),
        Grade.DOCUMENTED: _("{title}: at most {times} as fast (documented fix)."),
        Grade.HYPOTHESIS: _("{title}: at most {times} as fast (hypothesis)."),
    }[first.grade]
    return text.format(title=page_of(first.code, spoken()).title, times=times(first.speedup))
