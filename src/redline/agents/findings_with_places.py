"""Findings of a diagnosis as agents get them: a stable id, windows of time, and sentences apart from names."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import Formatter
from typing import Any

from redline.agents.recorded_text import recorded
from redline.errors import UsageError
from redline.findings.evidence import Evidence
from redline.findings.finding import ClaimedTime, Finding
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.finding_messages import second_cause, sentence, verdict_sentence
from redline.report.language import sentences

CLOCK = "start_ns and end_ns count from the first event of the trace of that rank, where Perfetto has 0; steps from 0"
_NUMBER_LETTERS = 9  # of a rank in a sentence: a number that short is no name of a stranger


class FindingPlaces:
    """Where the findings of one diagnosis are: steps of ranks, by their windows."""

    def __init__(self, result: DiagnoseResult) -> None:
        self._ranks = {rank.origin.rank: rank for rank in reversed(result.diagnosis.ranks)}
        self.findings = (*result.findings.findings, *result.findings.remarks)

    def window(self, place: ClaimedTime) -> dict[str, Any]:
        """A stretch of time, on the clock that `CLOCK` says, and the step in which it begins."""
        rank = self._ranks[place.rank]
        window_ns = rank.window_ns[0]
        start_ns = window_ns + place.start_ns
        starts = rank.ledger.start_ns.tolist()
        step = bisect_right(starts, start_ns) - 1
        inside = step >= 0 and start_ns < int(rank.ledger.end_ns[step])
        labels = rank.origin.step_labels
        return {
            "rank": place.rank,
            "step": step if inside else None,
            **({"step_label": recorded(labels[step], 40)} if inside and step < len(labels) and labels[step] else {}),
            "start_ns": start_ns,
            "end_ns": window_ns + place.end_ns,
        }

    def identity(self, finding: Finding) -> str:
        """Its code, and where its longest stretch is: RL-D01@r1s0. The same trace gives the same id every time."""
        if not finding.places:
            return f"{finding.code}@job"
        first = self.window(finding.places[0])
        step = "" if first["step"] is None else f"s{first['step']}"
        return f"{finding.code}@r{first['rank']}{step}"

    def known(self, identity: str) -> Finding:
        """The finding of an id, or of a code alone. UsageError where there is none."""
        for finding in self.findings:
            if identity in {self.identity(finding), finding.code}:
                return finding
        there = ", ".join(map(self.identity, self.findings)) or "none"
        raise UsageError(f"finding: {identity!r:.60} is not among the findings of this recording; there are: {there}")


def summary_row(places: FindingPlaces, finding: Finding, record: Mapping[str, Any], verify: str) -> dict[str, Any]:
    """One finding in short, from its record in the JSON report."""
    return {
        "id": places.identity(finding),
        **{name: record[name] for name in ("code", "title", "share", "bound_ns", "alone_share", "speedup")},
        **{name: record[name] for name in ("numerics", "grade", "ranks")},
        **({"of": "window, as no steps were recognised"} if finding.of_window else {}),
        **({"void": "its page says to ignore it in such a trace"} if finding.is_void else {}),
        "where": [places.window(place) for place in finding.places[:1]],
        "evidence": [said(evidence) for evidence in (*finding.evidence[:1], *finding.doubts[:1])][
            : 1 + finding.is_void
        ],
        "verify": verify,
    }


def said(evidence: Evidence) -> dict[str, Any]:
    """Our sentence with its numbers; names from the trace stay out of it, and stand beside it as data."""
    names = {name: value for name, value in evidence.values.items() if isinstance(value, str) and not _is_number(value)}
    without = replace(evidence, values={**evidence.values, **{name: f"{{{name}}}" for name in names}})
    in_sentence = {field for _text, field, _format, _conversion in Formatter().parse(evidence.message)}
    used = {name: recorded(value) for name, value in names.items() if name in in_sentence}
    return {"says": sentence(without), "bearing": str(evidence.bearing), **used}


def verdict_text(result: DiagnoseResult) -> str:
    """The verdict, without sentences that quote the trace."""
    ours = [replace(finding, evidence=_without_names(finding.evidence)) for finding in result.findings.findings]
    verdict = result.findings.verdict
    return sentences([verdict_sentence(verdict, ours, result.outline), second_cause(verdict, ours)])


def _without_names(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    return tuple(
        sentence_of
        for sentence_of in evidence
        if all(not isinstance(value, str) or _is_number(value) for value in sentence_of.values.values())
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _NUMBER_LETTERS
