"""Which logs of a run belong together: those of one engine, of its workers, and of the servers before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.artifacts.file_kind import lines_of
from redline.serving.log_records import LogHead, log_record
from redline.storage import below

ENGINE_LOGS, SERVER_LOGS = "engine-*.jsonl", "server-*.jsonl"
_STEP = b'["step"'  # how the line of a step begins


@dataclass(frozen=True, kw_only=True)
class EngineLogs:
    """The files, and how many engines took steps in the run."""

    of_engine: Sequence[Path]
    of_servers: Sequence[Path]
    engines: int


@dataclass(frozen=True, kw_only=True)
class _LogSummary:
    pid: object
    parent: object  # None in logs of before this was kept
    steps: int


def log_files(folder: Path) -> list[Path]:
    """Of a run; none where it served nothing."""
    return sorted(path for pattern in (ENGINE_LOGS, SERVER_LOGS) for path in below(folder, pattern))


def logs_of_one_engine(paths: Sequence[Path]) -> EngineLogs:
    """The one with the most steps: with data parallelism there are several, each with workers of its own."""
    servers = [path for path in paths if path.match(SERVER_LOGS)]
    heads = {path: _head_of(path) for path in paths if path not in servers}
    engines = [path for path, head in heads.items() if head.steps]
    if len(engines) < 2:
        return EngineLogs(of_engine=list(heads), of_servers=servers, engines=len(engines))
    most = max(engines, key=lambda path: heads[path].steps)
    workers = [path for path, head in heads.items() if not head.steps and head.parent in (None, heads[most].pid)]
    return EngineLogs(of_engine=[most, *workers], of_servers=servers, engines=len(engines))


def _head_of(path: Path) -> _LogSummary:
    head = None
    steps = 0
    for number, line in enumerate(lines_of(path)):
        steps += line.startswith(_STEP)
        if number == 0:
            head = log_record(line)
    told = head.head if isinstance(head, LogHead) else {}
    return _LogSummary(pid=told.get("pid"), parent=told.get("ppid"), steps=steps)
