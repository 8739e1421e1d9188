"""The scores as text for a terminal, and as the page of the documentation."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.cases import HERE, Case
from bench.results import Result
from bench.scoring import FEW, Score

Row = tuple[str, ...]
REASONS = HERE / "reasons.toml"  # of misses, by the title of the case


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A case with what came of it; no score where it could not run."""

    case: Case
    result: Result
    score: Score | None


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Counts over all cases; one that could not run names nothing."""

    cases: int
    ran: int
    first: int
    in_three: int
    absent: int
    alarms: int  # healthy twins with a finding of 5 % or more
    bounds: int  # cases in which a bound and a realised gain are known
    bounds_hold: int
    ranks: int  # cases with a rank at fault
    ranks_right: int
    patterns: int  # cases with several ranks
    patterns_right: int


def totals_of(rows: Iterable[Scored]) -> Totals:
    """Count what was named, and what holds."""
    rows = list(rows)
    scores = [row.score for row in rows if row.score is not None]
    return Totals(
        cases=len(rows),
        ran=len(scores),
        first=sum(score.place == 1 for score in scores),
        in_three=sum(0 < score.place <= FEW for score in scores),
        absent=len(rows) - sum(score.place > 0 for score in scores),
        alarms=sum(bool(score.alarms) for score in scores),
        bounds=sum(score.bound_holds is not None for score in scores),
        bounds_hold=sum(score.bound_holds is True for score in scores),
        ranks=sum(score.rank_right is not None for score in scores),
        ranks_right=sum(score.rank_right is True for score in scores),
        patterns=sum(score.pattern_right is not None for score in scores),
        patterns_right=sum(score.pattern_right is True for score in scores),
    )


TOTAL_HEADS: Row = (
    "cases",
    "ran",
    "cause first",
    "in the first three",
    "absent",
    "healthy twins with a finding of 5 % or more",
    "bound at least the gain",
    "rank right",
    "pattern right",
)
CASE_HEADS: Row = (
    "case",
    "cause",
    "named",
    "first findings",
    "healthy twin",
    "bound",
    "realised gain",
    "rank",
    "pattern",
)


def total_row(name: str, totals: Totals) -> Row:
    """One line of totals."""
    return (
        name,
        _of(totals.ran, totals.cases),
        _of(totals.first, totals.cases),
        _of(totals.in_three, totals.cases),
        _of(totals.absent, totals.cases),
        _of(totals.alarms, totals.ran),
        _of(totals.bounds_hold, totals.bounds),
        _of(totals.ranks_right, totals.ranks),
        _of(totals.patterns_right, totals.patterns),
    )


def total_rows(rows: Sequence[Scored]) -> list[Row]:
    """Open cases and those set aside, and each kind of them."""
    groups: dict[str, list[Scored]] = {}
    for row in rows:
        groups.setdefault(row.case.group, []).append(row)
    names = {group: f"{group or 'open'}: " if len(groups) > 1 else "" for group in groups}
    return [row for group, chosen in groups.items() for row in _rows_of_kinds(names[group], chosen)]


def _rows_of_kinds(before: str, rows: Sequence[Scored]) -> list[Row]:
    kinds = {
        "all": list(rows),
        "jobs on one rank": [row for row in rows if row.case.kind == "job" and row.case.label.ranks == 1],
        "jobs on several ranks": [row for row in rows if row.case.kind == "job" and row.case.label.ranks > 1],
        "GPU timelines": [row for row in rows if row.case.kind == "timeline"],
    }
    return [total_row(before + name, totals_of(chosen)) for name, chosen in kinds.items() if chosen]


def case_row(row: Scored) -> Row:
    """One line of a case."""
    score, label = row.score, row.case.label
    if score is None:
        return (row.case.title, label.cause, "not run", row.result.trouble, "", "", "", "", "")
    named = {0: "absent", 1: "first"}.get(score.place, f"{score.place}.")
    return (
        row.case.title,
        label.cause,
        named + (", by words" if score.by_words else ""),
        _codes(score.codes[:FEW]) or "none",
        _codes(score.alarms) or "silent",
        _percent(score.bound),
        _gain(score),
        _right(score.rank_right),
        _right(score.pattern_right),
    )


def miss_rows(rows: Iterable[Scored]) -> list[Row]:
    """What is not as it should be, with what was seen, and why: one line of each case that is not all right."""
    reasons: dict[str, str] = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return [
        (
            row.case.title,
            "; ".join(wrong),
            _codes(row.score.codes[:FEW]) if row.score else "",
            reasons.get(row.case.title, "not looked into"),
        )
        for row in rows
        if (wrong := list(_wrong(row)))
    ]


MISS_HEADS: Row = ("case", "what is wrong", "first findings of the flawed twin", "why")


def _wrong(row: Scored) -> Iterable[str]:
    score = row.score
    if score is None:
        yield f"not run: {row.result.trouble}"
        return
    if score.place != 1:
        yield f"{row.case.label.cause} is " + ("absent" if score.place == 0 else f"finding {score.place}")
    if score.unsaid:
        yield f"{', '.join(score.unsaid)} has none of the label's words"
    if score.alarms:
        yield f"healthy twin: {_codes(score.alarms)}"
    if score.bound_holds is False:
        yield f"bound {_percent(score.bound)} below the gain {_gain(score)}"
    if score.place and score.rank_right is False:
        yield "wrong rank"
    if score.place and score.pattern_right is False:
        yield "wrong pattern"


def as_text(heads: Row, rows: Sequence[Row]) -> str:
    """Columns side by side."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(heads: Row, rows: Sequence[Row]) -> str:
    """A table of a page."""
    lines = ["| " + " | ".join(row) + " |" for row in (heads, tuple("---" for _ in heads), *rows)]
    return "\n".join(lines)


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _gain(score: Score) -> str:
    if score.gain is None or score.gain_low is None or score.gain_high is None:
        return "-"
    return f"{100 * score.gain:.0f} % ({100 * score.gain_low:.0f} to {100 * score.gain_high:.0f})"


def _codes(codes: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{code} {_percent(share)}" for code, share in codes)


def _right(value: bool | None) -> str:
    return {None: "-", True: "right", False: "wrong"}[value]
