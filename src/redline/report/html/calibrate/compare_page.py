"""Two calibrations side by side as one HTML file that needs nothing else: tables that sort, one per family."""

from dataclasses import asdict

from redline.probes.compare import Comparison
from redline.report.calibrate import messages as say
from redline.report.calibrate.compare_tables import tables_of
from redline.report.calibrate.compare_text import changed_software, not_in_turns, only_lines, summary
from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.text_parts import clipped


def render(comparison: Comparison) -> str:
    shown = {f"table{number}": table for number, table in enumerate(tables_of(comparison, points=True))}
    said = [not_in_turns(), changed_software(comparison), *only_lines(comparison)]
    return template("calibrate/compare.html.j2").render(
        **frame(
            clipped(" / ".join(side.subject.name for side in (comparison.first, comparison.second)), 80),
            charts={},
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words=table_text(),
        ),
        titles={name: table.title for name, table in shown.items()},
        headline=summary(comparison),
        sides={"A": say.headline(comparison.first), "B": say.headline(comparison.second)},
        said=[line for line in said if line],
    )
