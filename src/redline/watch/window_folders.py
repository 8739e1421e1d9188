"""The windows of a job in folders, in order: which digests of each have come, and when."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import DIGEST_ENDING, restart_number, window_number
from redline.errors import InputError, UsageError
from redline.job.find_files import RUN_DIGESTS
from redline.storage import look_anew
from redline.watch.window_figures import WindowName

_LAST_NUMBER = re.compile(r"([0-9]+)[^0-9]*$")


@dataclass(frozen=True, kw_only=True)
class WindowFiles:
    """The digests of one window, from all folders, and when each became whole: a digest is renamed into its place."""

    name: WindowName
    written_ns: Mapping[Path, int]

    def within(self, grace_ns: int) -> list[Path]:
        """Without those that came later after the first than this. By the times of files, so that whoever reads the
        folder later leaves out the same."""
        last_ns = min(self.written_ns.values()) + grace_ns
        return sorted(path for path, written_ns in self.written_ns.items() if written_ns <= last_ns)


def window_folders(folders: Sequence[Path]) -> list[tuple[WindowName, list[Path]]]:
    """All windows in order, each with its folders; some may still be empty."""
    if not folders:
        raise UsageError("watch: no folder was given; name the folder of a run, or of its digests")
    named: defaultdict[WindowName, list[Path]] = defaultdict(list)
    for folder in folders:
        for name, path in _windows_in(folder):
            named[name].append(path)
    return sorted(named.items(), key=lambda item: item[0].order)


def files_of(name: WindowName, folders: Sequence[Path]) -> WindowFiles:
    """What has come so far. A file that goes away meanwhile has not come."""
    written_ns: dict[Path, int] = {}
    for folder in folders:
        for path in _inside(folder):
            if path.name.endswith(DIGEST_ENDING):
                try:
                    written_ns[path] = path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue
    return WindowFiles(name=name, written_ns=written_ns)


def _windows_in(folder: Path) -> Iterator[tuple[WindowName, Path]]:
    look_anew(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of a run, or of its digests")
    inside = folder / RUN_DIGESTS if (folder / RUN_DIGESTS).is_dir() else folder
    subfolders = _subfolders(inside)
    for path in subfolders:
        restart = restart_number(path.name)
        if restart is not None:
            yield from _numbered(path, restart)
    windows = list(_numbered(inside, 0))
    yield from windows or _others([path for path in subfolders if restart_number(path.name) is None])


def _numbered(folder: Path, restart: int) -> Iterator[tuple[WindowName, Path]]:
    for path in _subfolders(folder):
        number = window_number(path.name)
        if number is not None:
            text = f"restart-{restart}/{path.name}" if restart else path.name
            yield WindowName(restart=restart, number=number, text=text), path


def _others(subfolders: Sequence[Path]) -> Iterator[tuple[WindowName, Path]]:
    """Folders of any names that hold digests, in order of the last number in each name."""
    for path in subfolders:
        number = _LAST_NUMBER.search(path.name)
        if any(inner.name.endswith(DIGEST_ENDING) for inner in _inside(path)):
            yield WindowName(restart=0, number=int(number[1]) if number else 0, text=path.name), path


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in _inside(folder) if path.is_dir()]


def _inside(folder: Path) -> list[Path]:
    """What is there now, on this machine or in a store."""
    look_anew(folder)
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed: {error.strerror}") from error
