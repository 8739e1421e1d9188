"""What `redline.diagnose` returns: every renderer takes it, and it shows and saves itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redline.artifacts import write_atomic
from redline.capture.captured import Captured
from redline.errors import UsageError
from redline.findings.finding import Findings
from redline.findings.replayed import ReplayedJob
from redline.job.read_failures import Failure
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline
from redline.report.text_parts import about_some_ranks
from redline.serving.diagnose_serving import ServingDiagnosis
from redline.storage import path_of

if TYPE_CHECKING:
    import pandas as pd

    from redline.ledger.rank.step_view import StepView
    from redline.report.redaction.redactor import Redactor, Removed

_SAVED = {".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


@dataclass(frozen=True, kw_only=True, repr=False)
class DiagnoseResult:
    """The diagnosis of a job, its outline, and the files that could not be read."""

    diagnosis: Diagnosis
    outline: Outline
    findings: Findings
    failures: tuple[Failure, ...]
    step_view: "StepView | None" = None  # a usual step; None where it was not asked for or its trace is not at hand
    removed: "tuple[Removed, ...] | None" = None  # by redaction; None where nothing was looked for
    serving: ServingDiagnosis | None = None  # of the engine whose run the traces are of; None where there is none
    replayed: ReplayedJob | None = None  # what-ifs and forecasts; None where none were asked for
    saved: tuple[str, ...] = ()  # traces of the what-if, where they were asked for
    captured: Captured | None = None  # what the record of `redline run` says of these steps; None where there is none

    @property
    def about(self) -> str:
        """Which ranks it is about, where files could not be read; "" where all could."""
        return about_some_ranks(len(self.diagnosis.ranks), self.diagnosis.world_size, self.failures)

    def redacted(self, redactor: "Redactor | None" = None) -> "DiagnoseResult":
        """Without hosts, users, folders, names of traces and secrets; `removed` says what was taken out."""
        from redline.report.redaction.redactor import Redactor

        redactor = redactor or Redactor()
        clean = redactor.redacted(self)
        return replace(clean, removed=redactor.removed)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page (.html), everything for programs (.json), Markdown (.md) or text (.txt), by how the name ends.

        The page has a picture of one step where `diagnose` was called with `draw_step=True`.
        """
        form = _SAVED.get(path_of(path).suffix)
        if form is None:
            raise UsageError(f"{path}: a diagnosis is saved as {', '.join(_SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(path_of(path), force=force) as file:
            file.write(text.encode(errors="backslashreplace"))

    def rendered(
        self,
        form: str,
        *,
        tables: Sequence[str] = (),
        verbose: bool = False,
        unicode: bool = True,
        trace_link: str | None = None,
    ) -> str:
        """As html, json, md or text; csv is the first of the tables alone."""
        from redline.report.diagnose import csv, json, md, text
        from redline.report.diagnose.raw_tables import raw_table

        if form == "csv":
            return csv.render(raw_table(tables[0], self))
        if form == "json":
            return json.render(self)
        if form == "html":
            from redline.report.html.diagnose import page

            return page.render(self, trace_link=trace_link)
        if form == "md":
            return md.render(self, tables=tables, verbose=verbose)
        return text.render(self, tables=tables, verbose=verbose, unicode=unicode)

    def frame(self, name: str) -> "pd.DataFrame":
        """A table as a data frame of pandas: findings, kernels, collectives, ranks, steps, host or waterfall."""
        from redline.report.diagnose.frames import frame_of
        from redline.report.diagnose.raw_tables import COLUMNS, raw_table

        if name not in COLUMNS:
            raise UsageError(f"there is no table {name!r}; there are: {', '.join(COLUMNS)}")
        return frame_of(raw_table(name, self))

    def __repr__(self) -> str:
        from redline.report.diagnose.notebook import line_of

        return line_of(self)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from redline.report.diagnose.notebook import render
        from redline.report.diagnose.replay_tables import replay_tables
        from redline.report.diagnose.screen import screen_of

        return render(screen_of(self), replay_tables(self.replayed))
