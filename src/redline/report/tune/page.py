"""A search for better settings as one HTML file that needs nothing else: the ladder, what was rejected, the proof."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from redline.report.compare.sentences import signed
from redline.report.html.frame import frame, template
from redline.report.html.prose import prose
from redline.report.language import _, listed, sentences, spoken
from redline.report.text_parts import clipped
from redline.report.trial.pairs_chart import pairs_about, pairs_chart
from redline.report.trial.sentences import everything, verdict_sentence
from redline.report.tune.ladder import LadderRow, LadderRows, ladder_rows
from redline.report.tune.next_steps import PastedLever, is_worth_keeping, next_steps, pasted_levers, pasted_sentence
from redline.report.tune.rejection_messages import untried_sentences, why, with_reasons
from redline.report.tune.sentences import amount_text, beside, doubts, headline, limiting_sentences, time_name
from redline.report.tune.tables import ladder_table, rejected_table, row_name
from redline.trials.lever_pages import lever_page_of
from redline.tuning.candidates import LeverCandidate
from redline.tuning.tune_result import Objective, Rejected, Rung, TuneResult


def render(result: TuneResult) -> str:
    rows = ladder_rows(result)
    whole = result.ladder.whole
    return template("tune.html.j2").render(
        **frame(clipped(result.command, 80), charts={}, tables={}, words={"copy": _("Copy"), "copied": _("Copied")}),
        headline=headline(result, rows),
        second=sentences(beside(result, rows)),
        doubts=list(doubts(result, rows)),
        limiting=limiting_sentences(result),
        command=result.command,
        next_steps=list(next_steps(result)),
        pasted=[(pasted_sentence(lever), _lines(lever), lever.is_line) for lever in pasted_levers(result)],
        patch=result.diff.patch.expandtabs(4) if result.diff and is_worth_keeping(result) else "",
        ladder=ladder_chart(rows, result.objective),
        ladder_table=ladder_table(result, rows),
        rejected_table=rejected_table(result, whole_text=True),
        untried=untried_sentences(result.ladder.rejected),
        whole=sentences(everything(whole, None)) if whole and rows.rungs else "",
        chart=pairs_chart(whole) if whole and rows.rungs else None,
        pairs_about=pairs_about(),
        kept=[_rung_details(rung) for rung in result.ladder.rungs],
        rejected=[_rejected_details(lever) for lever in with_reasons(result.ladder.rejected)],
    )


def _lines(lever: PastedLever) -> Markup | str:
    """The prose of a page is ours; a line is what precedes the command, and may hold anything."""
    return lever.lines if lever.is_line else prose(lever.lines)


def _rung_details(rung: Rung) -> dict[str, Any]:
    """All that is known of one lever in this search, folded on the page."""
    title = listed(_page_title(candidate) for candidate in rung.candidates)
    return {"name": rung.name, "title": title, "said": list(filter(None, _rung_said(rung)))}


def _rung_said(rung: Rung) -> Iterator[str]:
    yield from map(_suggested, rung.candidates)
    if rung.others:
        yield _("Each of them was undecided by itself; which of them it is that gains is not known.")
    if rung.trial:
        yield from (f"{outcome.lever}: {outcome.what}" for outcome in rung.trial.levers if outcome.took)
    yield from everything(rung.trial, rung.numbers)
    if rung.alone:
        yield _("Without the rungs before it: {verdict}").format(verdict=verdict_sentence(rung.alone))


def _rejected_details(rejected: Rejected) -> dict[str, Any]:
    name, title = f"{rejected.candidate.name}: {why(rejected.why)}", _page_title(rejected.candidate)
    return {"name": name, "title": title, "said": list(filter(None, _rejected_said(rejected)))}


def _rejected_said(rejected: Rejected) -> Iterator[str]:
    yield _suggested(rejected.candidate)
    if rejected.kept:
        yield _("Tried on top of {levers}.").format(levers=listed(rejected.kept))
    yield from everything(rejected.trial, rejected.numbers)
    if rejected.memory:
        yield rejected.memory.error
    yield rejected.text


def _suggested(candidate: LeverCandidate) -> str:
    if not candidate.finding:
        return ""
    return _("Suggested by {finding}.").format(finding=candidate.finding)


def _page_title(candidate: LeverCandidate) -> str:
    return lever_page_of(candidate.lever.kind.name, spoken()).title


# --- the ladder -------------------------------------------------------------------------------------------------------

_ROOM = 1.02  # of the longest bar, so that its interval is seen
_UNKNOWN = "-"


@dataclass(frozen=True, kw_only=True)
class LadderBar:
    """One row of the chart; lengths and places in percent of the track."""

    name: str
    amount: str
    change: str  # on top of the row before, or of the whole; "" for the start
    length: float
    before: float  # the end of the bar that it is measured against
    low: float
    high: float
    has_interval: bool
    is_whole: bool
    beside: str  # the other amount: memory where time was the objective, and the reverse
    beside_length: float


@dataclass(frozen=True, kw_only=True)
class LadderChart:
    """All rows; `beside` is what the second bars are."""

    bars: tuple[LadderBar, ...]
    what: str
    beside: str  # "" where it is not known


def ladder_chart(rows: LadderRows, objective: Objective) -> LadderChart | None:
    """None where there is nothing to draw."""
    longest = _ROOM * max(row.amount for row in rows.all)
    if not rows.rungs or longest <= 0:
        return None
    by_memory = objective is Objective.MEMORY
    time, memory = time_name(rows.timed), _("peak memory")
    known = any(_beside(row, objective) for row in rows.all)
    return LadderChart(
        bars=tuple(_bars(rows, objective, longest)),
        what=memory if by_memory else time,
        beside=(time if by_memory else memory) if known else "",
    )


def _bars(rows: LadderRows, objective: Objective, longest: float) -> Iterator[LadderBar]:
    other = Objective.TIME if objective is Objective.MEMORY else Objective.MEMORY
    most_beside = max(_beside(row, objective) for row in rows.all) or 1.0
    before = rows.start.amount
    for row in rows.all:
        if row is rows.whole:
            before = rows.start.amount
        low, high = row.bounds(before)
        beside = _beside(row, objective)
        yield LadderBar(
            name=row_name(row, rows),
            amount=amount_text(objective, row.amount),
            change=signed(row.change.change) if row.change else "",
            length=_percent(row.amount, longest),
            before=_percent(before, longest),
            low=_percent(low, longest),
            high=_percent(high, longest),
            has_interval=row.change is not None,
            is_whole=row is rows.whole,
            beside=amount_text(other, beside) if beside else _UNKNOWN,
            beside_length=_percent(beside, most_beside),
        )
        before = row.amount


def _beside(row: LadderRow, objective: Objective) -> float:
    return (row.step_s or 0.0) if objective is Objective.MEMORY else float(row.peak_bytes)


def _percent(part: float, whole: float) -> float:
    return round(100 * min(max(part / whole, 0.0), 1.0), 2)
