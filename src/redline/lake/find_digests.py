"""From what the user named to the digests of a job, window by window."""

from collections.abc import Callable, Sequence
from pathlib import Path

from redline.artifacts import DIGEST_ENDING, restart_number, window_number
from redline.errors import InputError, UsageError
from redline.storage import below, look_anew, matches, path_of, shown

Window = tuple[int, int]  # numbers of the restart and the window; (0, 0) where the folders name none


def find_digests(named: Sequence[str | Path]) -> dict[Window, list[Path]]:
    """Digests by the window that their folders name, each file once."""
    paths = list(dict.fromkeys(path for name in named for path in _meant_by(str(name))))
    if not paths:
        raise UsageError("lake add: no digest was named; give the files or the folder that `redline digest` wrote")
    windows: dict[Window, list[Path]] = {}
    for path in paths:
        windows.setdefault(_window_of(path), []).append(path)
    return windows


def _meant_by(named: str) -> list[Path]:
    path = path_of(named)
    look_anew(path)
    if path.is_dir():
        inside = sorted(below(path, f"*{DIGEST_ENDING}"))
        if not inside:
            raise InputError(
                f"{shown(named)}: no digest in this folder; make digests of its traces first: redline digest"
            )
        return inside
    if path.exists():
        return [path]
    meant = sorted(matches(named))
    if not meant:
        raise InputError(f"{shown(named)}: no such file or folder, and as a pattern it matches nothing.")
    return [inner for match in meant for inner in _meant_by(str(match))]


def _window_of(path: Path) -> Window:
    names = path.absolute().parts
    return _innermost(restart_number, names), _innermost(window_number, names)


def _innermost(number: Callable[[str], int | None], names: Sequence[str]) -> int:
    found = [each for each in map(number, names) if each is not None]
    return found[-1] if found else 0
