"""`redline diagnose`: where the time of a job went, every nanosecond in one account."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from redline.capture.captured import captured_of, run_folder_of
from redline.errors import InputError, UsageError
from redline.findings.aggregate import findings_of, with_forecasts
from redline.findings.match import check_matches, match_rules
from redline.job.find_files import read_found
from redline.job.read_failures import Failure, attempted, failure_of
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.job.digests import analysis_again, digest_job
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest import RuleMatcher
from redline.ledger.rank.digest_file import is_digest
from redline.progress import Progress, ProgressStage, silent
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.storage import path_of
from redline.trace.schema import batch_sizes_of

if TYPE_CHECKING:
    from redline.findings.kept_ranks import RankKeeper
    from redline.ledger.rank.step_view import StepView
    from redline.replay.changes import Scenario
    from redline.serving.diagnose_serving import ServingDiagnosis
    from redline.verbs.altered_traces import AlteredTraces


def diagnose(  # noqa: PLR0913 (all that can be asked of traces; all of it has a default)
    paths: str | Path | Sequence[str | Path],
    *,
    machine: str | None = None,
    options: JobOptions | None = None,
    progress: Progress = silent,
    draw_step: bool = False,
    client: str | Path | None = None,
    what_if: str | Sequence[str] = (),
    forecast: bool = False,
    save_altered: str | Path | None = None,
) -> DiagnoseResult:
    """Read the traces or digests named by files, folders or patterns, and account for their time.

    `machine` is a record of the catalogue or a profile file; without it each trace's own device is looked up.
    `client` is the file that `vllm bench serve --save-detailed` wrote, of the load of a server that was run.
    `draw_step` opens the trace of one rank again, the one most like the job, to draw a usual step of it.
    `what_if` is a scenario such as "kernels(gemm)/2", or several: the steps are replayed with each. `forecast` replays
    them with the cause of each finding gone, as `what_if` does too; both open the traces of a large job again.
    `save_altered` is a new folder for the timelines of the one scenario of `what_if`, as traces that are read like any
    other, and that say what they were altered by.
    """
    options = options or JobOptions()
    asked = _scenarios(what_if)
    altered = None if save_altered is None else _altered_traces(save_altered, asked)
    kept = _keeper() if asked or forecast else None

    def combined(files: Sequence[Path]) -> tuple[Diagnosis, tuple[Failure, ...]]:
        decided = {"machine": machine, "step_regex": options.reading.step_regex, "model": options.model}
        _refuse_for_digests(files, decided)
        return _combined(files, machine, options, progress, kept or match_rules)

    files, (diagnosis, failures) = read_found(paths, combined, digests=True)
    if options.model is not None:
        _refuse_unused_model(diagnosis, options.model)
    outline = outline_of(diagnosis)
    captured = captured_of(files)
    findings = findings_of(diagnosis, outline)
    replayed, saved = None, tuple[str, ...]()
    if kept is not None:
        from redline.findings.replay_job import forecasts_of, replay_job  # of no use to others

        replayed = replay_job(
            diagnosis,
            findings,
            asked,
            kept=kept,
            files=files,
            machine=machine,
            options=options,
            progress=progress,
            take=None if altered is None else altered.take,
        )
        if altered is not None:
            saved = altered.written(diagnosis.ranks, files, machine, options, progress, replayed)
        forecasts = forecasts_of(findings, replayed)
        findings = with_forecasts(findings, forecasts, diagnosis, outline)
    view, undrawn = _typical_step(diagnosis, files, machine, options) if draw_step else (None, ())
    serving, unserved = _serving(files, options, None if client is None else path_of(client))
    return DiagnoseResult(
        diagnosis=diagnosis,
        outline=outline,
        findings=findings,
        failures=(*failures, *undrawn, *unserved),
        step_view=view,
        captured=captured,
        serving=serving,
        replayed=replayed,
        saved=saved,
    )


def _scenarios(what_if: str | Sequence[str]) -> "tuple[Scenario, ...]":
    """Checked before anything is read."""
    texts = [what_if] if isinstance(what_if, str) else what_if
    if not texts:
        return ()
    from redline.replay.scenario_text import parse_scenarios

    try:
        return parse_scenarios(texts)
    except UsageError as error:
        raise UsageError(f"diagnose: `what_if=...`: {error}") from error


def _altered_traces(folder: str | Path, asked: "Sequence[Scenario]") -> "AlteredTraces":
    from redline.verbs.altered_traces import AlteredTraces  # of no use to others

    return AlteredTraces(path_of(folder), asked)


def _keeper() -> "RankKeeper":
    from redline.findings.kept_ranks import RankKeeper  # of no use to others

    return RankKeeper()


def _combined(
    files: Sequence[Path], machine: str | None, options: JobOptions, progress: Progress, match: RuleMatcher
) -> tuple[Diagnosis, tuple[Failure, ...]]:
    """On return nothing is left of the digests but what the diagnosis has of them."""
    digested = digest_job(files, machine, options, progress, match, check_matches)
    progress(ProgressStage.COMBINE, 0, 0)
    return combine(digested.digests), digested.failures


def _typical_step(
    diagnosis: Diagnosis, files: Sequence[Path], machine: str | None, options: JobOptions
) -> tuple["StepView | None", tuple[Failure, ...]]:
    """A step of the rank most like the job; where its file fails now, the report is one without a drawing."""
    from redline.ledger.job.outlier_ranks import typical_place  # of no use to others
    from redline.ledger.rank.step_view import step_view_of

    place = typical_place(diagnosis)
    rank = diagnosis.ranks[place]

    def drawn(_: Path) -> "StepView | None":
        analysis = analysis_again(rank, files, machine, options)
        return None if analysis is None else step_view_of(analysis, diagnosis.waiting[place], rank.origin.rank)

    source = path_of(rank.origin.source)
    view = attempted(drawn, source)
    if not isinstance(view, InputError):
        return view, ()
    if options.reading.strict:
        raise view
    return None, (replace(failure_of(source, view), costs_a_rank=False),)


def _serving(
    files: Sequence[Path], options: JobOptions, client: Path | None
) -> tuple["ServingDiagnosis | None", tuple[Failure, ...]]:
    """Of the run that the traces are of; a log that cannot be read costs the log alone, a client's file ends it."""
    folder = run_folder_of(files)
    if client is None and folder is None:
        return None, ()
    from redline.serving.diagnose_serving import diagnose_serving  # of no use to others
    from redline.serving.read_logs import log_files

    if folder is None or (client is not None and not log_files(folder)):
        raise UsageError(f"diagnose: `client={client}` is for the run of a server, and this is none")
    if client is not None:
        return diagnose_serving(folder, client), ()
    found = attempted(diagnose_serving, folder)
    if not isinstance(found, InputError):
        return found, ()
    if options.reading.strict:
        raise found
    return None, (replace(failure_of(folder, found), costs_a_rank=False),)


def _refuse_unused_model(diagnosis: Diagnosis, model: str) -> None:
    """What was asked for and cannot be done is said: a figure may not look as if the model were in it."""
    if not any(batch_sizes_of(row.operator) for row in diagnosis.kernels):
        raise UsageError(
            f"diagnose: `model={model}` is for steps of an engine on one GPU with known peaks whose labels have the "
            "sizes of their batch; there are none here, so leave it out"
        )


def _refuse_for_digests(files: Sequence[Path], decided: Mapping[str, str | None]) -> None:
    """What was decided when a digest was made cannot be decided again without its trace."""
    given = [name for name, value in decided.items() if value is not None]
    if given and any(map(is_digest, files)):
        raise UsageError(
            f"diagnose: `{given[0]}=...` is for traces, and a digest was given; make the digest anew with it"
        )
