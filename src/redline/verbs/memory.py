"""`redline memory`: what holds a device's memory at its peak, and why an allocation failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from redline.errors import InputError, UsageError
from redline.job.find_files import TRACE_ENDINGS, find_traces
from redline.job.read_failures import Failure, attempted, failure_of
from redline.ledger.memory.device_memory import DeviceMemory, read_device_memories
from redline.ledger.memory.plan_comparison import PlannedMemory
from redline.ledger.memory.trace_device_memory import timeline_device_memory, trace_device_memories
from redline.progress import Progress, ProgressStage, silent
from redline.report.memory.memory_result import MemoryResult
from redline.storage import below, look_anew, matches, path_of, shown
from redline.trace.cache import cache_folder, read_cached
from redline.trace.memory_timeline import looks_like_memory_timeline
from redline.trace.reader import ReadOptions

if TYPE_CHECKING:
    from redline.verbs.plan_results import PlannedTraining

_ENDINGS = (".pickle", ".pickle.gz", ".pkl", ".pkl.gz", ".pickle.zst")


def memory(
    paths: str | Path | Sequence[str | Path],
    *,
    device_bytes: int = 0,
    plan: str | Path | PlannedTraining | None = None,
    progress: Progress = silent,
) -> MemoryResult:
    """Read the snapshots and traces named by files, folders or patterns. With the memory of the device, what is outside
    of torch is told as well. `plan` is what `plan_training` returns, or the JSON that it was saved as: the memory that
    it predicts is held against the largest peak."""
    planned = None if plan is None else _planned(plan)
    files = _found([paths] if isinstance(paths, str | Path) else paths)
    devices: list[DeviceMemory] = []
    failures: list[Failure] = []
    for number, path in enumerate(files):
        progress(ProgressStage.READ, number, len(files))
        outcome = attempted(_memories, path)
        if isinstance(outcome, InputError):
            if len(files) == 1:
                raise outcome
            failures.append(failure_of(path, outcome))
        else:
            devices += outcome
    if not devices:
        raise InputError(f"none of {len(files):,} files tells of memory; the first: {failures[0].message}")
    return MemoryResult(devices=tuple(devices), failures=tuple(failures), device_bytes=device_bytes, plan=planned)


def _planned(plan: str | Path | PlannedTraining) -> PlannedMemory:
    from redline.verbs.planned_memory import planned_memory  # the planner, which only few need here

    return planned_memory(plan)


def _memories(path: Path) -> tuple[DeviceMemory, ...]:
    if path.is_file() and looks_like_memory_timeline(path):
        return (timeline_device_memory(path),)
    if not path.name.endswith(TRACE_ENDINGS):
        return read_device_memories(path)
    timelines = read_cached(path, ReadOptions(), cache_folder()).timelines
    return tuple(memory for timeline in timelines for memory in trace_device_memories(timeline))


def _found(named: Iterable[str | Path]) -> list[Path]:
    """Every file meant, each once."""
    files: dict[Path, Path] = {}
    for name in named:
        for path in _meant_by(str(name)):
            files.setdefault(path.absolute(), path)
    if not files:
        raise UsageError("no path was given; name memory snapshots, traces, a folder of them or a pattern")
    return list(files.values())


def _meant_by(name: str) -> list[Path]:
    path = path_of(name)
    look_anew(path)
    if path.is_dir():
        inside = sorted(inner for inner in below(path, "*") if inner.name.endswith(_ENDINGS) and inner.is_file())
        return inside or _traces_in(path)
    if path.exists():
        return [path]
    meant = sorted(matches(name))
    if not meant:
        raise InputError(f"{shown(name)}: no such file or folder, and as a pattern it matches nothing.")
    return meant


def _traces_in(folder: Path) -> list[Path]:
    try:
        return find_traces(folder)
    except InputError as error:
        raise InputError(f"{error} Nor is there a memory snapshot ({', '.join(_ENDINGS[:2])}).") from error
