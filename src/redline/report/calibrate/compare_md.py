"""Two calibrations side by side as Markdown: what they are, and the figures to plan with, family by family."""

from redline.probes.compare import Comparison
from redline.report.calibrate import messages as say
from redline.report.calibrate.compare_tables import tables_of
from redline.report.calibrate.compare_text import changed_software, not_in_turns, only_lines, summary
from redline.report.diagnose.md import escaped, markdown_table
from redline.report.report_table import ReportTable
from redline.report.terminal import as_text


def render(comparison: Comparison) -> str:
    said = [not_in_turns(), changed_software(comparison), *only_lines(comparison)]
    return as_text(
        [
            [f"## {escaped(summary(comparison))}"],
            [
                f"- A: {escaped(say.headline(comparison.first))}",
                f"- B: {escaped(say.headline(comparison.second))}",
                *(f"- {escaped(line)}" for line in said if line),
            ],
            *(block for shown in tables_of(comparison, points=False) for block in _family(shown)),
        ]
    )


def _family(shown: ReportTable) -> tuple[list[str], list[str]]:
    return [f"### {escaped(shown.title)}"], markdown_table(shown)
