"""What `redline.diagnose` returns: a diagnosed job that shows and saves itself."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from redline.errors import UsageError
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.shown_result import SavedResult

if TYPE_CHECKING:
    import pandas as pd

    from redline.report.redaction.redactor import Redactor


class DiagnoseResult(DiagnosedJob, SavedResult):
    """The diagnosis of a job, its outline, and the files that could not be read.

    It is saved as a page (.html), everything for programs (.json), Markdown (.md) or text (.txt), by how the name ends.
    The page has a picture of one step where `diagnose` was called with `draw_step=True`.
    """

    WHAT: ClassVar[str] = "a diagnosis"
    SAVED: ClassVar[dict[str, str]] = {".html": "html", ".json": "json", ".md": "md", ".txt": "text"}

    def redacted(self, redactor: "Redactor | None" = None) -> "DiagnoseResult":
        """Without hosts, users, folders, names of traces and secrets; `removed` says what was taken out."""
        from redline.report.redaction.redactor import Redactor

        redactor = redactor or Redactor()
        clean = redactor.redacted(self)
        return replace(clean, removed=redactor.removed)

    def rendered(
        self,
        form: str,
        *,
        verbose: bool = False,
        unicode: bool = True,
        tables: Sequence[str] = (),
        trace_link: str | None = None,
    ) -> str:
        """As html, json, md or text; csv is the first of the tables alone."""
        from redline.report.diagnose import diagnosis_document, json, raw_tables
        from redline.report.markdown import markdown_of
        from redline.report.terminal import text_of

        if form == "csv":
            return raw_tables.csv_of(tables[0], self)
        if form == "json":
            return json.render(self)
        if form == "html":
            from redline.report.html.diagnose.page import page_of_job  # Jinja2 and Plotly, which only pages need
            from redline.report.html.frame import page_text

            return page_text(page_of_job(self, trace_link=trace_link))
        if form == "md":
            return markdown_of(diagnosis_document.comment_of(self, tables=tables, verbose=verbose))
        return text_of(diagnosis_document.document_of(self, tables=tables, verbose=verbose), unicode=unicode)

    def frame(self, name: str) -> "pd.DataFrame":
        """A table as a data frame of pandas: findings, kernels, collectives, ranks, steps, host or waterfall."""
        from redline.report.diagnose.raw_tables import COLUMNS, frame_of

        if name not in COLUMNS:
            raise UsageError(f"there is no table {name!r}; there are: {', '.join(COLUMNS)}")
        return frame_of(name, self)

    def __repr__(self) -> str:
        """ "<diagnosis of 2 ranks: step 8.605 ms, idle 41.7 %; 3 findings, first RL-D01 with at most 26.7 %>"."""
        from redline.report.text_parts import percent, plural
        from redline.units import format_ns

        listed = self.findings.findings
        first = f", first {listed[0].code} with at most {percent(listed[0].share)}" if listed else ""
        step = format_ns(round(self.outline.steps.median_ns))
        return (
            f"<diagnosis of {plural(len(self.diagnosis.ranks), 'rank')}: step {step}, "
            f"idle {percent(self.findings.verdict.idle_share)}; {plural(len(listed), 'finding')}{first}>"
        )

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from redline.report.diagnose.diagnosis_document import notebook_document_of
        from redline.report.notebook import html_of

        return html_of(notebook_document_of(self))
