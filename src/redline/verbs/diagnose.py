"""`redline diagnose`: where the time of a job went, every nanosecond in one account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redline.analysis.job.combine import Diagnosis, combine
from redline.analysis.job.digests import digest_job, scene_again
from redline.analysis.job.first_screen import Outline, outline_of
from redline.analysis.job.typical_rank import typical_place
from redline.analysis.rank.digest_file import is_digest
from redline.artifacts import write_atomic
from redline.errors import InputError, UsageError
from redline.findings.aggregate import findings_of
from redline.findings.check_matches import check_matches
from redline.findings.finding import Findings
from redline.findings.match import match_rules
from redline.launch.captured import Captured, captured_of
from redline.progress import Progress, Stage, silent
from redline.ranks.find_files import find_traces
from redline.ranks.read_failures import Failure, attempted, failure_of
from redline.ranks.read_files import JobOptions

if TYPE_CHECKING:
    import pandas as pd

    from redline.analysis.rank.step_view import StepView
    from redline.report.redaction.redactor import Redactor, Removed


_SAVED = {".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosed:
    """The diagnosis of a job, its outline, and the files that could not be read."""

    diagnosis: Diagnosis
    outline: Outline
    findings: Findings
    failures: tuple[Failure, ...]
    step_view: "StepView | None" = (
        None  # a usual step, drawn; None where it was not asked for or its trace is not at hand
    )
    removed: "tuple[Removed, ...] | None" = None  # by redaction; None where nothing was looked for
    captured: Captured | None = None  # what the record of `redline run` says of these steps; None where there is none

    def redacted(self, redactor: "Redactor | None" = None) -> "Diagnosed":
        """Without hosts, users, folders, names of traces and secrets; `removed` says what was taken out."""
        from redline.report.redaction.redactor import Redactor

        redactor = redactor or Redactor()
        clean = redactor.redacted(self)
        return replace(clean, removed=redactor.removed)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page (.html), everything for programs (.json), Markdown (.md) or text (.txt), by how the name ends.

        The page has a picture of one step where `diagnose` was called with `draw_step=True`.
        """
        form = _SAVED.get(Path(path).suffix)
        if form is None:
            raise UsageError(f"{path}: a diagnosis is saved as {', '.join(_SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(Path(path), force=force) as file:
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

        known = self.diagnosis, self.outline, self.findings, self.failures
        if form == "csv":
            return csv.render(raw_table(tables[0], *known[:3]))
        if form == "json":
            return json.render(*known, removed=self.removed, captured=self.captured)
        if form == "html":
            from redline.report.html.diagnose import page

            return page.render(
                *known, step_view=self.step_view, trace_link=trace_link, removed=self.removed, captured=self.captured
            )
        if form == "md":
            return md.render(*known, tables=tables, verbose=verbose, removed=self.removed, captured=self.captured)
        return text.render(
            *known, tables=tables, verbose=verbose, unicode=unicode, removed=self.removed, captured=self.captured
        )

    def frame(self, name: str) -> "pd.DataFrame":
        """A table as a data frame of pandas: findings, kernels, collectives, ranks, steps, host or waterfall."""
        from redline.report.diagnose.frames import frame_of
        from redline.report.diagnose.raw_tables import COLUMNS, raw_table

        if name not in COLUMNS:
            raise UsageError(f"there is no table {name!r}; there are: {', '.join(COLUMNS)}")
        return frame_of(raw_table(name, self.diagnosis, self.outline, self.findings))

    def __repr__(self) -> str:
        from redline.report.diagnose.notebook import line_of

        return line_of(self.diagnosis, self.outline, self.findings)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from redline.report.diagnose.notebook import render
        from redline.report.diagnose.screen import screen_of

        known = self.diagnosis, self.outline, self.findings, self.failures
        return render(screen_of(*known, self.removed, self.captured))


def diagnose(
    paths: str | Path | Sequence[str | Path],
    *,
    machine: str | None = None,
    options: JobOptions | None = None,
    progress: Progress = silent,
    draw_step: bool = False,
) -> Diagnosed:
    """Read the traces or digests named by files, folders or patterns, and account for their time.

    `machine` is a record of the catalogue or a profile file; without it each trace's own device is looked up.
    `draw_step` opens the trace of one rank again, the one most like the job, to draw a usual step of it.
    """
    options = options or JobOptions()
    files = find_traces(paths, digests=True)
    _refuse_for_digests(files, {"machine": machine, "step_regex": options.reading.step_regex})
    diagnosis, failures = _combined(files, machine, options, progress)
    outline = outline_of(diagnosis)
    findings = findings_of(diagnosis, outline)
    view, undrawn = _typical_step(diagnosis, files, machine, options) if draw_step else (None, ())
    return Diagnosed(
        diagnosis=diagnosis,
        outline=outline,
        findings=findings,
        failures=(*failures, *undrawn),
        step_view=view,
        captured=captured_of(files),
    )


def _combined(
    files: Sequence[Path], machine: str | None, options: JobOptions, progress: Progress
) -> tuple[Diagnosis, tuple[Failure, ...]]:
    """On return nothing is left of the digests but what the diagnosis has of them."""
    found = digest_job(files, machine, options, progress, match_rules, check_matches)
    progress(Stage.COMBINE, 0, 0)
    return combine(found.digests), found.failures


def _typical_step(
    diagnosis: Diagnosis, files: Sequence[Path], machine: str | None, options: JobOptions
) -> tuple["StepView | None", tuple[Failure, ...]]:
    """A step of the rank most like the job; where its file fails now, the report is one without a drawing."""
    from redline.analysis.rank.step_view import strip_of

    place = typical_place(diagnosis)
    rank = diagnosis.ranks[place]

    def drawn(_: Path) -> "StepView | None":
        analysis = scene_again(rank, files, machine, options)
        return None if analysis is None else strip_of(analysis, diagnosis.waiting[place], rank.origin.rank)

    source = Path(rank.origin.source)
    view = attempted(drawn, source)
    if not isinstance(view, InputError):
        return view, ()
    if options.reading.strict:
        raise view
    return None, (failure_of(source, view),)


def _refuse_for_digests(files: Sequence[Path], decided: Mapping[str, str | None]) -> None:
    """What was decided when a digest was made cannot be decided again without its trace."""
    given = [name for name, value in decided.items() if value is not None]
    if given and any(map(is_digest, files)):
        raise UsageError(
            f"diagnose: `{given[0]}=...` is for traces, and a digest was given; make the digest anew with it"
        )
