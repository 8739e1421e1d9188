"""A search for better settings as one HTML file that needs nothing else: the ladder, what was rejected, the proof."""

from collections.abc import Iterator
from typing import Any

from redline.report.compare.sentences import signed
from redline.report.display import Style
from redline.report.document import (
    Code,
    Folded,
    Items,
    LabelledLines,
    PageBlock,
    PageDocument,
    Paragraph,
    Section,
    TemplateDrawing,
)
from redline.report.language import _, listed, sentences, spoken
from redline.report.text_parts import capital, clipped
from redline.report.trial.pairs_chart import pairs_section
from redline.report.trial.sentences import everything, verdict_sentence
from redline.report.tune.ladder import LadderRow, LadderRows, ladder_rows
from redline.report.tune.next_steps import is_worth_keeping, next_steps, pasted_levers, pasted_sentence
from redline.report.tune.rejection_messages import untried_sentences, why, with_reasons
from redline.report.tune.sentences import amount_text, beside, doubts, headline, limiting_sentences, time_name
from redline.report.tune.tables import ladder_table, rejected_table, row_name
from redline.trials.lever_pages import lever_page_of
from redline.tuning.candidates import LeverCandidate
from redline.tuning.tune_result import Objective, Rejected, Rung, TuneResult


def page_of(result: TuneResult) -> PageDocument:
    rows, ladder = ladder_rows(result), result.ladder
    doubt = tuple(doubts(result, rows))
    rejected, untried = rejected_table(result, whole_text=True), untried_sentences(ladder.rejected)
    not_tried = LabelledLines(lines=tuple(("" if n else _("not tried"), text) for n, text in enumerate(untried)))
    kept: list[PageBlock] = [ladder_table(result, rows), *map(_rung_details, ladder.rungs)] if rows.rungs else []
    not_kept: list[PageBlock] = [not_tried] if untried else []
    not_kept += [rejected, *map(_rejected_details, with_reasons(ladder.rejected))] if rejected.rows else []
    whole = ladder.whole if rows.rungs else None
    return PageDocument(
        title=clipped(result.command, 80),
        headline=headline(result, rows),
        said=(sentences(beside(result, rows)),),
        sections=(
            Section(name="verdict", link=_("Verdict"), blocks=()),
            Section(blocks=(Items(items=doubt, style=Style.LIMIT),) if doubt else (), style="panel warning"),
            _ladder_section(rows, result.objective),
            Section(blocks=tuple(_commands(result)), style="panel fix next"),
            Section(name="rungs", blocks=tuple(kept)),
            Section(name="rejected", link=capital(_("not kept")), blocks=tuple(not_kept)),
            *([pairs_section(whole, sentences(everything(whole, None)))] if whole else []),
        ),
        words={"copy": _("Copy"), "copied": _("Copied")},
    )


def _commands(result: TuneResult) -> Iterator[PageBlock]:
    yield LabelledLines(lines=((_("command"), result.command), *limiting_sentences(result)))
    yield from (Code(about=why, text=command) for why, command in next_steps(result))
    for lever in pasted_levers(result):
        said = pasted_sentence(lever)
        yield Code(about=said, text=lever.lines) if lever.is_line else Folded(title=said, content=lever.lines)
    if result.diff and result.diff.patch and is_worth_keeping(result):
        yield Code(text=result.diff.patch.expandtabs(4), summary=_("The patch"))


def _rung_details(rung: Rung) -> Items:
    """All that is known of one lever in this search, folded on the page."""
    title = listed(_page_title(candidate) for candidate in rung.candidates)
    return Items(title=rung.name, items=(title, *filter(None, _rung_said(rung))), is_folded=True)


def _rung_said(rung: Rung) -> Iterator[str]:
    yield from map(_suggested, rung.candidates)
    if rung.others:
        yield _("Each of them was undecided by itself; which of them it is that gains is not known.")
    if rung.trial:
        yield from (f"{outcome.lever}: {outcome.what}" for outcome in rung.trial.levers if outcome.took)
    yield from everything(rung.trial, rung.numbers)
    if rung.alone:
        yield _("Without the rungs before it: {verdict}").format(verdict=verdict_sentence(rung.alone))


def _rejected_details(rejected: Rejected) -> Items:
    said = (_page_title(rejected.candidate), *filter(None, _rejected_said(rejected)))
    return Items(title=f"{rejected.candidate.name}: {why(rejected.why)}", items=said, is_folded=True)


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


def _ladder_section(rows: LadderRows, objective: Objective) -> Section:
    chart = ladder_chart(rows, objective)
    about = _(
        "From the start down the rungs: each bar has all levers so far. Pale: what its lever gained; the line at its "
        "end is the interval. The last bar is all of them against the start, measured afresh: the figure that counts."
    )
    blocks: tuple[PageBlock, ...] = ()
    if chart is not None:
        drawing = TemplateDrawing(template="ladder.html.j2", values={"ladder": chart})
        blocks = (Paragraph(text=about), drawing)
    return Section(name="ladder", link=_("Ladder"), title=_("Ladder"), blocks=blocks, style="panel")


def ladder_chart(rows: LadderRows, objective: Objective) -> dict[str, Any] | None:
    """A bar for each row, and what they are of; `beside` is what the second bars are, "" where it is not known.

    None where there is nothing to draw.
    """
    longest = _ROOM * max(row.amount for row in rows.all)
    if not rows.rungs or longest <= 0:
        return None
    by_memory = objective is Objective.MEMORY
    time, memory = time_name(rows.timed), _("peak memory")
    known = any(_beside(row, objective) for row in rows.all)
    return {
        "bars": list(_bars(rows, objective, longest)),
        "what": memory if by_memory else time,
        "beside": (time if by_memory else memory) if known else "",
    }


def _bars(rows: LadderRows, objective: Objective, longest: float) -> Iterator[dict[str, Any]]:
    """Lengths and places in percent of the track; `before` is the end of the bar that it is measured against."""
    other = Objective.TIME if objective is Objective.MEMORY else Objective.MEMORY
    most_beside = max(_beside(row, objective) for row in rows.all) or 1.0
    before = rows.start.amount
    for row in rows.all:
        if row is rows.whole:
            before = rows.start.amount
        low, high = row.bounds(before)
        beside = _beside(row, objective)
        yield {
            "name": row_name(row, rows),
            "amount": amount_text(objective, row.amount),
            "change": signed(row.change.change) if row.change else "",
            "length": _percent(row.amount, longest),
            "before": _percent(before, longest),
            "low": _percent(low, longest),
            "high": _percent(high, longest),
            "has_interval": row.change is not None,
            "is_whole": row is rows.whole,
            "beside": amount_text(other, beside) if beside else _UNKNOWN,
            "beside_length": _percent(beside, most_beside),
        }
        before = row.amount


def _beside(row: LadderRow, objective: Objective) -> float:
    return (row.step_s or 0.0) if objective is Objective.MEMORY else float(row.peak_bytes)


def _percent(part: float, whole: float) -> float:
    return round(100 * min(max(part / whole, 0.0), 1.0), 2)
