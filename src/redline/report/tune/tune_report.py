"""What `redline.tune` returns, as text, a comment, a page, JSON and CSV."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from redline.report.data import csv_text, enveloped, picked, plain
from redline.report.display import Style, styled
from redline.report.document import (
    Block,
    Commands,
    Document,
    Folded,
    Heading,
    LabelledLines,
    PageDocument,
    Paragraph,
    ReportTable,
)
from redline.report.language import _, sentences, speaking
from redline.report.shown_result import ShownResult
from redline.report.tune.ladder import LadderRow, LadderRows, MeasuredChange, ladder_rows
from redline.report.tune.next_steps import next_steps, pasted_levers, pasted_sentence
from redline.report.tune.page import page_of
from redline.report.tune.rejection_messages import evidence, untried_sentences
from redline.report.tune.sentences import (
    beside,
    doubts,
    effort_sentence,
    headline,
    limiting_sentences,
    memory_sentence,
)
from redline.report.tune.tables import ladder_table, rejected_table
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_record import to_record
from redline.tuning.tune_result import Rejected, Rung, TuneResult

_LABEL_WIDTH = 11


@dataclass(frozen=True, kw_only=True, repr=False)
class TuneReport(ShownResult):
    """A search for better settings, for people and programs."""

    WHAT = "a search"

    result: TuneResult

    def document(self, *, verbose: bool = False) -> Document:
        result, rows = self.result, ladder_rows(self.result)
        style = Style.GOOD if rows.is_proven else Style.LIMIT
        first = [
            (_("verdict"), styled(headline(result, rows), style)),
            ("", sentences(beside(result, rows))),
            *((_("doubt"), doubt) for doubt in doubts(result, rows)),
            *limiting_sentences(result),
        ]
        untried = [
            ("" if number else _("not tried"), sentence)
            for number, sentence in enumerate(untried_sentences(result.ladder.rejected))
        ]
        typed = list(next_steps(result))
        pasted = [
            (pasted_sentence(lever), lever.lines if lever.is_line else lever.explained_by)
            for lever in pasted_levers(result)
        ]
        return Document(
            blocks=(
                LabelledLines(lines=tuple(first), width=_LABEL_WIDTH),
                *([ladder_table(result, rows)] if rows.rungs else []),
                _grouped(rejected_table(result)),
                LabelledLines(lines=tuple(untried), width=_LABEL_WIDTH),
                Commands(title=_("next") if typed else "", lines=(*typed, *pasted)),
            )
        )

    def comment(self, *, verbose: bool = False) -> Document:
        result, rows = self.result, ladder_rows(self.result)
        rejected = rejected_table(result)
        count = _("{title} ({count})").format(title=rejected.title, count=len(rejected.rows))
        untried = [(_("not tried"), sentence) for sentence in untried_sentences(result.ladder.rejected)]
        return Document(
            blocks=(
                Heading(text=headline(result, rows)),
                Paragraph(text=sentences([*beside(result, rows), *doubts(result, rows)])),
                LabelledLines(lines=tuple(limiting_sentences(result))),
                *([replace(ladder_table(result, rows), title="")] if rows.rungs else []),
                *([Folded(title=count, content=rejected)] if rejected.rows else []),
                LabelledLines(lines=tuple(untried)),
                Commands(lines=tuple(next_steps(result))),
                *_pasted(result),
            )
        )

    def page(self) -> PageDocument:
        return page_of(self.result)

    def csv(self) -> str:
        """The ladder: numbers as they are, in seconds and bytes."""
        rows = ladder_rows(self.result)
        named = [("start", rows.start), *((str(row.number), row) for row in rows.rungs)]
        named += [("whole", rows.whole)] if rows.whole else []
        return csv_text(_HEAD, (_csv_cells(name, row) for name, row in named))

    def record(self) -> dict[str, Any]:
        """In English, whatever language is spoken: programs read it."""
        with speaking("en"):
            return enveloped("tuning", 1, "redline tune", _record(self.result, ladder_rows(self.result)))

    def __repr__(self) -> str:
        return f"<redline tuning: {headline(self.result, ladder_rows(self.result))}>"


def _grouped(shown: ReportTable) -> ReportTable:
    """A reason stands once, before the first of its levers."""
    rows, before = [], ""
    for why, *cells in shown.rows:
        rows.append(("" if why == before else why, *cells))
        before = why
    return replace(shown, rows=tuple(rows))


def _pasted(result: TuneResult) -> Iterator[Block]:
    """The lines of a page are ours, and Markdown already."""
    for lever in pasted_levers(result):
        said = pasted_sentence(lever)
        yield Commands(lines=((said, lever.lines),)) if lever.is_line else Folded(title=said, content=lever.lines)


# --- for programs -----------------------------------------------------------------------------------------------------

_HEAD = ("rung", "lever", "change", "low", "high", "step_s", "peak_bytes", "numbers")


def _csv_cells(name: str, row: LadderRow) -> tuple[object, ...]:
    change = _change(row.change) or dict.fromkeys(("change", "low", "high"))
    bounds = ("" if value is None else value for value in change.values())
    return (name, row.lever, *bounds, row.step_s or "", row.peak_bytes or "", str(row.numbers or ""))


def _record(result: TuneResult, rows: LadderRows) -> dict[str, Any]:
    ladder = result.ladder
    said = [headline(result, rows), memory_sentence(result, rows), effort_sentence(result), *doubts(result, rows)]
    return {
        "command": result.command,
        "objective": str(result.objective),
        "levers": list(ladder.levers),
        "proven": rows.is_proven,
        "start": {"step_s": result.start_step_s, "peak_bytes": result.start_peak_bytes},
        "memory_limit_bytes": result.memory_limit_bytes or None,
        "ladder": {**_row(rows.start), "drift": rows.drift},
        "rungs": [_rung(rung, row) for rung, row in zip(ladder.rungs, rows.rungs, strict=True)],
        "whole": _whole(result, rows),
        "rejected": [_rejected(lever) for lever in ladder.rejected],
        "limiting": {"before": result.limiting_before, "now": result.limiting_now},
        "spent_s": result.spent_s,
        "budget_s": result.budget_s,
        "folder": str(result.folder),
        "written": list(result.written),
        "pasted": plain(result.diff.unplaced) if result.diff else [],
        "next": [command for _why, command in next_steps(result)],
        "text": " ".join(filter(None, said)),
    }


def _row(row: LadderRow) -> dict[str, Any]:
    return {"step_s": row.step_s, "peak_bytes": row.peak_bytes or None}


def _rung(rung: Rung, row: LadderRow) -> dict[str, Any]:
    return {
        **picked(row, "lever finding replaced"),
        "change": _change(row.change),
        **_row(row),
        "numbers": str(row.numbers) if row.numbers else None,
        "allowed_other_numbers": row.agreed,
        "trial": to_record(rung.trial, rung.numbers),
        "alone": to_record(rung.alone, None) if rung.alone else None,
        "memory": _memory(rung.memory),
    }


def _whole(result: TuneResult, rows: LadderRows) -> dict[str, Any] | None:
    """None where it was not measured."""
    if rows.whole is None and result.ladder.whole is None and result.ladder.whole_memory is None:
        return None
    return {
        "change": _change(rows.whole.change if rows.whole else None),
        "promised": _change(rows.promised),
        "disagrees": rows.disagrees,
        **(_row(rows.whole) if rows.whole else {"step_s": None, "peak_bytes": None}),
        "trial": to_record(result.ladder.whole, None) if result.ladder.whole else None,
        "memory": _memory(result.ladder.whole_memory),
    }


def _rejected(rejected: Rejected) -> dict[str, Any]:
    return {
        "lever": rejected.candidate.name,
        "finding": rejected.candidate.finding,
        "why": str(rejected.why),
        "kept": list(rejected.kept),
        "evidence": evidence(rejected),
        "text": rejected.text,
        "trial": to_record(rejected.trial, rejected.numbers) if rejected.trial or rejected.numbers else None,
        "memory": _memory(rejected.memory),
    }


def _change(change: MeasuredChange | None) -> dict[str, float | None] | None:
    """Bounds are None where there is none yet."""
    if change is None:
        return None
    low, high = (bound if -1 < bound < float("inf") else None for bound in (change.low, change.high))
    return {"change": change.change, "low": low, "high": high}


def _memory(memory: MemoryTrial | None) -> dict[str, Any] | None:
    names = "before_bytes after_bytes before_step_s after_step_s error"
    return None if memory is None else picked(memory, names)
