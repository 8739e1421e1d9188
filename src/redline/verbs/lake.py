"""`redline lake`: digests of many jobs in one folder of Parquet files, asked by name or with SQL."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redline.errors import InputError, UsageError
from redline.findings.aggregate import findings_of
from redline.findings.match import check_matches, match_rules
from redline.job.read_failures import Failure
from redline.job.read_files import JobOptions
from redline.lake.asking import ask_here
from redline.lake.extra import duckdb, pyarrow
from redline.lake.parts import compact, compact_all, prune, remove_abandoned, write_part
from redline.lake.rows import JobLabels, find_digests, job_of, rows_of, run_of
from redline.lake.sql_process import ask_elsewhere
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest_file import is_digest
from redline.progress import Progress, ProgressStage, silent
from redline.report.lake import LakeAddResult, LakeAskResult, LakePruneResult
from redline.storage import is_remote, path_of

if TYPE_CHECKING:
    from redline.capture.run_record import RunRecord


def add_to_lake(
    digests: Sequence[str | Path],
    lake: str | Path,
    *,
    labels: JobLabels | None = None,
    progress: Progress = silent,
) -> LakeAddResult:
    """Add the digests of one job, named by files, folders or patterns; each window of it is diagnosed as a whole.

    Added again, they count once: with the labels that were given last.
    """
    pyarrow()
    folder = _folder(lake)
    windows = find_digests(digests)
    files = [path for paths in windows.values() for path in paths]
    _refuse_traces(files)
    labels = labels or JobLabels()
    job, run = job_of(labels, files), run_of(files)
    added_ns = time.time_ns()
    tables: list[Any] = []
    failures: list[Failure] = []
    for paths in windows.values():
        table, failed = _rows_of_window(paths, labels.of_job(job), None if run is None else run[1], added_ns, progress)
        tables.append(table)
        failures += failed
    progress(ProgressStage.WRITE, 0, len(tables))
    parts = [write_part(folder, table, made_by="redline lake add") for table in tables]
    compact(folder)
    return LakeAddResult(
        lake=str(lake),
        job=job,
        windows=len(parts),
        digests=sum(len(table) for table in tables),
        failures=tuple(failures),
    )


def _folder(lake: str | Path) -> Path:
    """Files of a lake are renamed into their places, which no store of objects can do."""
    path = path_of(lake)
    if is_remote(path):
        raise UsageError(f"lake: {path}: a lake is a folder of this machine or of a file system that machines share")
    return path


def _refuse_traces(files: Sequence[Path]) -> None:
    other = next((path for path in files if not is_digest(path)), None)
    if other is not None:
        raise InputError(f"{other} is no digest; make digests of the traces first: redline digest")


def _rows_of_window(
    paths: Sequence[Path], labels: JobLabels, run: "RunRecord | None", added_ns: int, progress: Progress
) -> tuple[Any, tuple[Failure, ...]]:
    digested = digest_job(paths, None, JobOptions(jobs=1), progress, match_rules, check_matches)
    progress(ProgressStage.COMBINE, 0, 0)
    diagnosis = combine(digested.digests)
    findings = findings_of(diagnosis, outline_of(diagnosis)).findings
    return rows_of(diagnosis, findings, labels, run=run, added_ns=added_ns), digested.failures


def ask_lake(
    lake: str | Path,
    question: str | None = None,
    *,
    sql: str | None = None,
    job: str | None = None,
    price: float | None = None,
    days: int | None = None,
    top: int = 10,
) -> LakeAskResult:
    """The answer to a question by its name, or to one SELECT over `digests`, `findings` and `operators`."""
    if (question is None) == (sql is None):
        raise UsageError("lake ask: give the name of a question, or `sql=...`; one of them")
    duckdb()
    if sql is None:
        asked = ask_here(_folder(lake), question, sql, parameters={"job": job, "price": price, "top": top}, days=days)
    else:
        asked = ask_elsewhere(_folder(lake), sql, days)
    return LakeAskResult(
        lake=str(lake),
        question=question or "",
        sql=asked.sql,
        answer=asked.answer,
        digests=asked.digests,
        jobs=asked.jobs,
        synthetic=asked.synthetic,
        first_day=asked.first_day,
        last_day=asked.last_day,
        price=price,
        job=job or "",
    )


def prune_lake(lake: str | Path, days: int, *, today: datetime | None = None) -> LakePruneResult:
    """Remove windows that ended more than so many days ago (UTC), and merge what is left of each day."""
    pyarrow()
    folder = _folder(lake)
    pruned = prune(folder, days, today or datetime.now(UTC))
    merged = compact_all(folder)
    remove_abandoned(folder)
    return LakePruneResult(
        lake=str(lake), first_kept=pruned.first_kept, days=pruned.days, digests=pruned.digests, merged=merged
    )
