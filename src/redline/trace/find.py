"""From what the user named (files, folders, patterns) to the trace files to read."""

import glob
from collections.abc import Iterable
from pathlib import Path

from redline.errors import InputError

_ENDINGS = (".json", ".json.gz", ".json.zst", ".json.tmp", ".json.gz.tmp", ".tar", ".tar.gz", ".tgz", ".tar.zst")
_NOT_TRACES = ("truth.json", "run.json", "manifest.json")
_UNFINISHED = ".tmp"


def find_traces(named: Iterable[str | Path]) -> list[Path]:
    """Every trace file meant, in a stable order, each once."""
    found: dict[Path, None] = {}
    for one in named:
        for path in _meant_by(str(one)):
            found[path] = None
    return list(found)


def _meant_by(named: str) -> list[Path]:
    path = Path(named)
    if path.is_dir():
        inside = sorted(_natural(inner) for inner in path.rglob("*") if inner.is_file() and _looks_like_a_trace(inner))
        if not inside:
            raise InputError(f"{named}: no trace in this folder (looked for {', '.join(_ENDINGS[:4])} and archives).")
        return _without_superseded([inner for _, inner in inside])
    if path.exists():
        return [path]
    matches = [Path(match) for match in sorted(glob.glob(named, recursive=True))]  # noqa: PTH207 (absolute patterns)
    if not matches:
        raise InputError(f"{named}: no such file or folder, and as a pattern it matches nothing.")
    return [inner for match in matches for inner in (_meant_by(str(match)) if match.is_dir() else [match])]


def _looks_like_a_trace(path: Path) -> bool:
    return path.name.endswith(_ENDINGS) and path.name not in _NOT_TRACES


def _natural(path: Path) -> tuple[tuple[tuple[int, str], ...], Path]:
    """A key by which rank-10 comes after rank-2."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for letter in f"{path}\0":
        if letter.isdecimal() and letter.isascii():
            digits += letter
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, letter))
    return tuple(parts), path


def _without_superseded(paths: list[Path]) -> list[Path]:
    """An unfinished export counts only where the finished file is absent."""
    present = set(paths)
    return [
        path
        for path in paths
        if path.suffix != _UNFINISHED or not {path.with_suffix(""), Path(f"{path.with_suffix('')}.gz")} & present
    ]
