"""A search for better settings, as text for a terminal: the verdict, the ladder, what was rejected, what to do next."""

from collections.abc import Iterator

from redline.report.display import Style, styled
from redline.report.document import ReportTable
from redline.report.language import _, sentences
from redline.report.terminal import as_text, fitted, labelled, table
from redline.report.tune.ladder import LadderRows, ladder_rows
from redline.report.tune.next_steps import next_steps, pasted_levers, pasted_sentence
from redline.report.tune.rejection_messages import untried_sentences
from redline.report.tune.sentences import (
    doubts,
    effort_sentence,
    headline,
    limiting_sentences,
    memory_sentence,
    numbers_extent,
)
from redline.report.tune.tables import ladder_table, rejected_table
from redline.tuning.tune_result import TuneResult

_LABEL_WIDTH = 11


def render(result: TuneResult) -> str:
    rows = ladder_rows(result)
    return as_text(
        [
            list(_first_lines(result, rows)),
            _table(ladder_table(result, rows)) if rows.rungs else [],
            _table(_grouped(rejected_table(result))),
            list(_untried(result)),
            list(_next(result)),
        ]
    )


def _first_lines(result: TuneResult, rows: LadderRows) -> Iterator[str]:
    style = Style.GOOD if rows.is_proven else Style.LIMIT
    yield from labelled(_("verdict"), styled(headline(result, rows), style), _LABEL_WIDTH)
    beside = [memory_sentence(result, rows), numbers_extent(result), effort_sentence(result)]
    yield from labelled("", sentences(beside), _LABEL_WIDTH)
    for doubt in doubts(result, rows):
        yield from labelled(_("doubt"), doubt, _LABEL_WIDTH)
    for label, text in limiting_sentences(result):
        yield from labelled(label, text, _LABEL_WIDTH)


def _table(shown: ReportTable) -> list[str]:
    if not shown.rows:
        return []
    return [shown.title, *(f"  {line}".rstrip() for line in table(shown.head, shown.rows))]


def _grouped(shown: ReportTable) -> ReportTable:
    """A reason stands once, before the first of its levers."""
    rows, before = [], ""
    for why, *cells in shown.rows:
        rows.append(("" if why == before else why, *cells))
        before = why
    return ReportTable(title=shown.title, head=shown.head, rows=tuple(rows), notes=shown.notes, empty=shown.empty)


def _untried(result: TuneResult) -> Iterator[str]:
    for number, sentence in enumerate(untried_sentences(result.ladder.rejected)):
        yield from labelled("" if number else _("not tried"), sentence, _LABEL_WIDTH)


def _next(result: TuneResult) -> Iterator[str]:
    for number, step in enumerate(next_steps(result)):
        if not number:
            yield _("next")
        yield from fitted(step.why, "  ")
        yield f"    {step.command}"
    for lever in pasted_levers(result):
        yield from fitted(pasted_sentence(lever), "  ")
        yield f"    {lever.lines if lever.is_line else lever.explained_by}"
