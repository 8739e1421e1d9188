"""An answer of the lake as one HTML file that needs nothing else: a table that sorts, and what it was asked of."""

from dataclasses import asdict

from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.lake.lake_messages import size_line
from redline.report.lake.lake_results import LakeAskResult
from redline.report.lake.tables import answer_table
from redline.report.text_parts import clipped


def render(result: LakeAskResult) -> str:
    shown = answer_table(result)
    tables = {"answer": asdict(sorted_table(shown))} if shown.rows else {}
    return template("lake/page.html.j2").render(
        **frame(clipped(result.job or shown.title, 80), charts={}, tables=tables, words=table_text()),
        headline=f"{shown.title[:1].upper()}{shown.title[1:]}",
        size=size_line(result),
        empty="" if shown.rows else shown.empty,
        notes=[] if shown.rows else shown.notes,
        sql=result.sql,
    )
