"""The tables of a search, as cells: the ladder, and what was rejected."""

from redline.report.document import ReportTable
from redline.report.language import _
from redline.report.text_parts import clipped, percent
from redline.report.trial.sentences import class_name
from redline.report.tune.ladder import LadderRow, LadderRows
from redline.report.tune.rejection_messages import evidence, why, with_reasons
from redline.report.tune.sentences import gain_interval, seconds_text, time_name
from redline.tuning.tune_result import Objective, TuneResult
from redline.units import format_bytes

_MOST_EVIDENCE = 240  # letters
_UNKNOWN = "-"


def ladder_table(result: TuneResult, rows: LadderRows) -> ReportTable:
    """From the start down the rungs; the last row is the whole."""
    by_memory = result.objective is Objective.MEMORY
    time = time_name(rows.timed)
    amounts = (_("peak memory"), time) if by_memory else (time, _("peak memory"))
    interval = _("all runs") if by_memory else _("95 % interval")
    return ReportTable(
        title=_("the ladder: each lever on top of those before it"),
        head=(_("lever"), _("gain"), interval, amounts[0], amounts[1], _("numbers")),
        rows=tuple(_cells(row, rows, by_memory) for row in rows.all),
    )


def _cells(row: LadderRow, rows: LadderRows, by_memory: bool) -> tuple[str, ...]:
    step = seconds_text(row.step_s) if row.step_s else _UNKNOWN
    peak = format_bytes(row.peak_bytes) if row.peak_bytes else _UNKNOWN
    return (
        row_name(row, rows),
        percent(-row.change.change) if row.change else _UNKNOWN,
        gain_interval(row.change) if row.change else _UNKNOWN,
        *((peak, step) if by_memory else (step, peak)),
        numbers_cell(row),
    )


def row_name(row: LadderRow, rows: LadderRows) -> str:
    if row is rows.start:
        return _("start")
    if row is rows.whole:
        return _("all, measured afresh")
    if row.replaced:
        return _("{number} {lever} (instead of {replaced})").format(
            number=row.number, lever=row.lever, replaced=row.replaced
        )
    return f"{row.number} {row.lever}"


def numbers_cell(row: LadderRow) -> str:
    if row.numbers is not None:
        return class_name(row.numbers)
    return _("others, as allowed") if row.agreed else _UNKNOWN


def rejected_table(result: TuneResult, *, whole_text: bool = False) -> ReportTable:
    """What was not kept, and why; the end of a long text says most."""
    return ReportTable(
        title=_("not kept"),
        head=(_("why"), _("lever"), _("what shows it")),
        rows=tuple(
            (why(lever.why), lever.candidate.name, shown if whole_text else clipped(shown[::-1], _MOST_EVIDENCE)[::-1])
            for lever in with_reasons(result.ladder.rejected)
            for shown in (evidence(lever) or _UNKNOWN,)
        ),
    )
