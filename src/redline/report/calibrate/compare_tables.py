"""The figures of two calibrations as tables, one per family: those to plan with, or all."""

from collections.abc import Iterator

from redline.probes.calibration_record import FAMILIES
from redline.probes.compare import Comparison
from redline.report.calibrate import messages as say
from redline.report.calibrate.compare_text import cells
from redline.report.language import _
from redline.report.report_table import ReportTable


def tables_of(comparison: Comparison, *, points: bool) -> Iterator[ReportTable]:
    """With `points`, those of curves too."""
    for family in FAMILIES:
        rows = [row for row in comparison.rows if row.family == family and (points or row.is_main)]
        if rows:
            yield ReportTable(
                title=say.named(say.FAMILIES, family),
                head=(_("figure"), "A", "B", _("B / A"), _("verdict")),
                rows=tuple(map(cells, rows)),
                notes=(),
                empty="",
            )
