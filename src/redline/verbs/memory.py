"""`redline memory`: what holds a device's memory at its peak, and why an allocation failed."""

import glob
from collections.abc import Iterable, Sequence
from pathlib import Path

from redline.analysis.memory.device_memory import DeviceMemory, read_device_memories
from redline.errors import InputError, UsageError
from redline.progress import Progress, ProgressStage, silent
from redline.ranks.read_failures import Failure, attempted, failure_of
from redline.report.memory.memory_result import MemoryResult

_ENDINGS = (".pickle", ".pickle.gz", ".pkl", ".pkl.gz", ".pickle.zst")


def memory(
    paths: str | Path | Sequence[str | Path], *, device_bytes: int = 0, progress: Progress = silent
) -> MemoryResult:
    """Read the snapshots named by files, folders or patterns. With the memory of the device, what is outside of torch
    is told as well."""
    files = _found([paths] if isinstance(paths, str | Path) else paths)
    devices: list[DeviceMemory] = []
    failures: list[Failure] = []
    for number, path in enumerate(files):
        progress(ProgressStage.READ, number, len(files))
        outcome = attempted(read_device_memories, path)
        if isinstance(outcome, InputError):
            if len(files) == 1:
                raise outcome
            failures.append(failure_of(path, outcome))
        else:
            devices += outcome
    if not devices:
        raise InputError(f"none of {len(files):,} files is a memory snapshot; the first: {failures[0].message}")
    return MemoryResult(devices=tuple(devices), failures=tuple(failures), device_bytes=device_bytes)


def _found(named: Iterable[str | Path]) -> list[Path]:
    """Every file meant, each once."""
    files: dict[Path, Path] = {}
    for name in named:
        for path in _meant_by(str(name)):
            files.setdefault(path.absolute(), path)
    if not files:
        raise UsageError("no path was given; name memory snapshots, a folder of them or a pattern")
    return list(files.values())


def _meant_by(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        inside = sorted(inner for inner in path.rglob("*") if inner.name.endswith(_ENDINGS) and inner.is_file())
        if not inside:
            raise InputError(f"{name}: no memory snapshot in this folder (looked for {', '.join(_ENDINGS[:2])}).")
        return inside
    if path.exists():
        return [path]
    matches = sorted(map(Path, glob.glob(name, recursive=True)))  # noqa: PTH207 (absolute patterns)
    if not matches:
        raise InputError(f"{name}: no such file or folder, and as a pattern it matches nothing.")
    return matches
