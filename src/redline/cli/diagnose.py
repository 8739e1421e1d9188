"""`redline diagnose` on the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from redline.cli.arguments import (
    FORMATS,
    Executor,
    Machine,
    Reading,
    Redacting,
    Report,
    Stepping,
    deliver_report,
    formats,
    job_options,
    language,
    redacting,
    refuse_unknown_format,
)
from redline.cli.options import Options, Verb, flag, flags, value, values, words
from redline.cli.output import (
    code_of_read,
    point_to,
    quoted,
    remark,
    speaks_unicode,
    tell_tracebacks,
    unused,
)
from redline.cli.show_progress import progress
from redline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from redline.findings.thresholds import Threshold
    from redline.job.find_files import TraceFiles
    from redline.report.diagnose.diagnose_result import DiagnoseResult
    from redline.report.redaction.redactor import Redactor


EXIT_CROSSED = 1

# The tables of `diagnose`, each an option; what says how they look is imported when one is asked for.
TABLES = {
    "findings": "all findings: gain beside the others and alone, effect on numerics",
    "kernels": "kernels by operator and shape: time, achieved rates, distance from the roof",
    "collectives": "collectives by kind and size: time, hidden and waiting share, bandwidth",
    "ranks": "ranks: step, accounts, lateness",
    "steps": "steps: length and accounts of each",
    "phases": "phases: input, forward, backward, optimizer, between steps; what of each is device, host, waiting",
    "host": "what the host did while the device waited for it",
}


class Tables(Options):
    """Tables to add"""

    tables: tuple[str, ...] = flags(TABLES)


class Replay(Options):
    """What a change would gain"""

    what_if: tuple[str, ...] = values(
        "SCENARIO",
        "replay the steps with something changed, such as 'kernels(gemm)/2', 'collectives=0', 'loader=0', "
        "'host/2', 'network*2', 'rank 7 like the others', 'remove aten::copy_'; commas combine changes; may repeat",
    )
    forecast: bool = flag("replay the steps with the cause of each finding gone: what its fix gains, beside its bound")
    save_altered: str | None = value(
        "FOLDER",
        "with one --what-if: save its timelines as traces in a new folder, one per rank, to be diagnosed, merged "
        "and compared; they say what they were altered by",
    )


class Serving(Options):
    """Jobs of a serving engine"""

    model: str | None = value(
        "NAME|FILE",
        "a model such as qwen3-8b, or its config.json: lets Redline rate CUDA-graph steps from vLLM's labels",
    )
    client: str | None = value(
        "FILE", "what `vllm bench serve --save-detailed` wrote; adds the network to what requests waited for"
    )


class DiagnoseOptions(Tables, Replay, Reading, Executor, Machine, Stepping, Serving, Report, Redacting):
    """Show where the time went, why, and what to change."""

    verb = "diagnose"
    example = "redline diagnose redline-runs/train-1 --findings --fail-on 'idle>20%'"
    paths: tuple[str, ...] = words("PATH", "a trace, a digest, an archive, a folder or a glob pattern")
    format: str | None = formats("text", "html", "md", "json", "csv for one table")
    with_trace: bool = flag("write the merged trace next to an HTML report, which links to it")
    fail_on: tuple[str, ...] = values(
        "LIMIT", "exit with 1 if this is met, such as 'idle>20%', 'mfu<40%', 'step>150ms', RL-H01; may be repeated"
    )
    verbose: bool = flag("all findings, full tables, and tracebacks", "-v", either="loudness")


def run(options: DiagnoseOptions) -> int:
    return redacting(options, _run, digests=True)


def _run(options: DiagnoseOptions, files: TraceFiles, redactor: Redactor | None) -> int:
    from redline.verbs.diagnose import diagnose

    refuse_unknown_format("diagnose", options.output, tuple(FORMATS))
    limits = [_limit(text) for text in options.fail_on]
    tables = list(dict.fromkeys(options.tables))
    language(options)
    form = options.form
    if form == "csv" and len(tables) != 1:
        names = ", ".join(f"--{name}" for name in TABLES)
        raise UsageError(f"diagnose: CSV is one table; give exactly one of {names}")
    if form == "html" and options.output is None and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError("diagnose: an HTML report is 2 MB of text; give it a file, such as -o report.html")
    if _is_of_requests_alone(options, files):
        return _tell_requests(options)
    if options.save_altered and redactor is not None:
        raise UsageError(
            "diagnose: --save-altered writes whole traces, and --redact cleans the report alone; leave one of them "
            "out, and then `redline merge --redact` what was saved"
        )
    trace = _planned_trace(files, options)
    reading = job_options(options)
    with progress(options) as tell:
        diagnose_result = diagnose(
            files,
            machine=options.machine,
            options=reading,
            progress=tell,
            draw_step=form == "html",
            client=options.client,
            what_if=options.what_if,
            forecast=options.forecast,
            save_altered=options.save_altered,
        )
    if redactor is not None:
        diagnose_result = diagnose_result.redacted(redactor)
    if trace is not None:
        _write_trace(trace, files, options, redactor)
    deliver_report(
        options,
        lambda form: diagnose_result.rendered(
            form,
            tables=tables,
            verbose=options.verbose,
            unicode=options.output is not None or speaks_unicode(),
            trace_link=None if trace is None else trace.name,
        ),
    )
    tell_tracebacks(diagnose_result.failures, verbose=options.verbose)
    if not options.quiet:
        if diagnose_result.saved:
            remark(f"saved in {options.save_altered}, altered and not measured: {len(diagnose_result.saved):,} x trace")
        if diagnose_result.removed is not None and (form not in ("text", "md") or options.output):
            from redline.report.redaction.redactor import redacted_text

            remark(redacted_text(diagnose_result.removed))
        _point_onwards(options, files, diagnose_result, tables)
    judged = _judged(limits, diagnose_result)
    return code_of_read(len(diagnose_result.diagnosis.ranks), diagnose_result.failures) or judged


def _is_of_requests_alone(options: DiagnoseOptions, files: TraceFiles) -> bool:
    """Whether a run has nothing but the log of its engine. UsageError for what only a trace can tell."""
    from redline.verbs.diagnose_requests import folder_of_logs

    if folder_of_logs(options.paths, files) is None:
        return False
    from redline.report.serving.requests_result import FORMS

    if options.form not in FORMS or options.tables or options.fail_on or options.with_trace or options.redact:
        raise UsageError(
            "diagnose: this run has the log of its engine and no trace; it is shown as text, md or json, without "
            "tables, limits and --redact. A window shows more: redline run --after 10 ..., or --when 'running>0'"
        )
    return True


def _tell_requests(options: DiagnoseOptions) -> int:
    from redline.verbs.diagnose_requests import diagnose_requests

    found = diagnose_requests(options.paths[0], client=options.client)
    deliver_report(options, found.rendered)
    if not options.quiet and found.serving.causes:
        _point_to_page(found.serving.causes[0].code, options)
    return 0


def _planned_trace(files: TraceFiles, options: DiagnoseOptions) -> Path | None:
    """Where the trace will go, if one is wanted; what stands against it is said before hours of reading."""
    if not options.with_trace:
        return None
    from redline.job.merge import check_output
    from redline.ledger.rank.digest_file import is_digest
    from redline.storage import path_of

    if options.form != "html" or options.output is None:
        raise UsageError("diagnose: --with-trace is for an HTML report; give it a name, such as -o report.html")
    if any(map(is_digest, files)):
        raise UsageError("diagnose: --with-trace needs the traces themselves, and a digest was given")
    target = path_of(options.output).with_suffix(".trace.json.gz")
    check_output(target, force=options.force)
    return target


def _write_trace(target: Path, files: TraceFiles, options: DiagnoseOptions, redactor: Redactor | None) -> None:
    from redline.verbs.merge import merge

    reading = job_options(options)
    with progress(options) as tell:
        merge(files, target, redactor=redactor, force=options.force, options=reading, progress=tell)


def _limit(text: str) -> Threshold:
    from redline.findings import thresholds

    try:
        return thresholds.parse(text)
    except UsageError as error:
        raise UsageError(f"diagnose: --fail-on {error}") from error


def _judged(limits: Sequence[Threshold], diagnose_result: DiagnoseResult) -> int:
    """The exit code by the thresholds; each that is crossed is said. One that cannot be checked is no success."""
    if not limits:
        return 0
    from redline.errors import InputError
    from redline.findings.thresholds import MeasuredJob, check
    from redline.report.diagnose.thresholds_text import crossed_line, unknown_line

    measured = MeasuredJob(
        diagnosis=diagnose_result.diagnosis,
        outline=diagnose_result.outline,
        findings=diagnose_result.findings,
        unread=len(diagnose_result.failures),
    )
    outcomes = check(limits, measured)
    crossed = [outcome for outcome in outcomes if outcome.crossed]
    for crossing in crossed:
        remark(crossed_line(crossing), "WARNING")
    unknown = [unknown_line(outcome) for outcome in outcomes if outcome.crossed is None]
    if unknown:
        raise InputError("\n".join(unknown))
    return EXIT_CROSSED if crossed else 0


# The table that says more about an account; of the others there is none.
_TABLE_OF = {
    "memory": "kernels",
    "kernel loss": "kernels",
    "unrated compute": "kernels",
    "transfer": "collectives",
    "peer wait": "ranks",
    "input": "host",
    "sync": "host",
    "host": "host",
}


def _point_onwards(
    options: DiagnoseOptions, files: TraceFiles, diagnose_result: DiagnoseResult, shown: Sequence[str]
) -> None:
    """To the report; else to the page of the first finding or of memory that grows, the table for the largest loss, or
    all ranks at once."""
    losses = [bar.account for bar in diagnose_result.outline.largest]
    wanted = [table for table in (_TABLE_OF.get(loss) for loss in losses[:2]) if table and table not in shown]
    clocks = diagnose_result.diagnosis.clocks
    paths = "... --redact" if options.redact else quoted(options.paths)
    if diagnose_result.saved:
        verb, before = ("compare", options.paths) if len(options.paths) == 1 else ("diagnose", [])
        point_to(f"redline {verb} {quoted([*before, str(options.save_altered)])}")
    elif options.form == "html" and options.output is not None:
        point_to(f"open {'the report' if options.redact else quoted([options.output])} in a browser")
    elif diagnose_result.serving is not None and diagnose_result.serving.causes:
        _point_to_page(diagnose_result.serving.causes[0].code, options)
    elif diagnose_result.findings.verdict.first and (diagnose_result.findings.verdict.worthwhile or not wanted):
        _point_to_page(diagnose_result.findings.verdict.first, options)
    elif diagnose_result.diagnosis.memory is not None and diagnose_result.diagnosis.memory.growing is not None:
        _point_to_page("RL-M02", options)
    elif wanted:
        chosen = (
            []
            if options.redact
            else [word for name in ("machine", "step_regex", "model", "lang") for word in _given(options, name)]
        )
        point_to(f"redline diagnose {paths} {quoted([*chosen, f'--{wanted[0]}'], most=9)}")
    elif not options.redact and clocks.operations and clocks.trusted and _are_traces(files):
        point_to(f"redline merge {quoted(options.paths)} -o {unused('merged.json.gz')}")


def _point_to_page(code: str, options: DiagnoseOptions) -> None:
    point_to(quoted(["redline", "explain", code, *_given(options, "lang")], most=9))


def _are_traces(files: TraceFiles) -> bool:
    """Several files, none of which is a digest: digests cannot be merged."""
    from redline.ledger.rank.digest_file import is_digest

    return len(files) > 1 and not any(map(is_digest, files))


def _given(options: DiagnoseOptions, name: str) -> list[str]:
    value = getattr(options, name)
    return [] if value is None else [f"--{name.replace('_', '-')}", value]


VERB = Verb(DiagnoseOptions, run)
