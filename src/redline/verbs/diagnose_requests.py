"""`redline diagnose` of a run that has the log of a serving engine and no trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from redline.errors import InputError
from redline.storage import path_of

if TYPE_CHECKING:
    from redline.report.serving.requests_result import RequestsResult


def folder_of_logs(named: Sequence[str | Path], traces: Sequence[Path]) -> Path | None:
    """The folder of a run that was named, where it has logs of an engine and no trace.

    `traces` are searched for when they are asked for: only of a run.
    """
    folder = path_of(named[0]) if len(named) == 1 else None
    if folder is None or not (folder / "run.json").is_file():
        return None
    from redline.serving.read_logs import log_files  # of no use to others

    if not log_files(folder):
        return None
    try:
        return None if len(traces) else folder
    except InputError:
        return folder


def diagnose_requests(folder: str | Path, *, client: str | Path | None = None) -> "RequestsResult":
    """Where the time of requests went. InputError where the folder has no log of an engine."""
    from redline.report.serving.requests_result import RequestsResult
    from redline.serving.diagnose_serving import diagnosis_of

    found = diagnosis_of(path_of(folder), None if client is None else path_of(client))
    return RequestsResult(folder=path_of(folder), serving=found)
