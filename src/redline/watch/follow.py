"""Follow a job's windows as their digests come: by looking again, as network file systems tell of nothing."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import DIGEST_ENDING, restart_number, window_number
from redline.errors import InputError, UsageError
from redline.findings.match import check_matches, match_rules
from redline.job.find_files import RUN_DIGESTS
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.rank.digest import Digest
from redline.storage import look_anew
from redline.watch.job_monitor import JobMonitor, WatchedWindow
from redline.watch.window_figures import WindowFigures, WindowName, figures_of

_MOST_FAILURES = 8


def world_size_of(path: Path) -> int:
    """The size that one digest says; 0 where it does not. Raises InputError where it cannot be read."""
    return max(digest.origin.world_size for digest in _digests([path])[0])


def window_figures(paths: Sequence[Path], name: WindowName, expected: Sequence[int]) -> WindowFigures:
    """`expected` are ranks that must have come where no digest states the size of the job. A digest that cannot be
    read is a rank that is silent, and its failure is told. Raises InputError where none can be read."""
    digests, failures = _digests(paths)
    diagnosis = combine(digests)
    known = {rank.origin.rank for rank in diagnosis.ranks}
    silent = diagnosis.missing or tuple(sorted(set(expected) - known))
    size = diagnosis.world_size or len(known | set(expected))
    return figures_of(diagnosis, name, silent, size, failures[:_MOST_FAILURES])


def _digests(paths: Sequence[Path]) -> tuple[tuple[Digest, ...], tuple[str, ...]]:
    digested = digest_job(paths, None, JobOptions(use_cache=False, jobs=1), match=match_rules, check=check_matches)
    return digested.digests, tuple(failure.message for failure in digested.failures)


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


NS_PER_S = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Following:
    """How to follow. Times are of this machine's clock and of the clock of the store, which should agree."""

    grace_s: float = 300.0  # after its first digest, a window waits so long for the others
    poll_s: float = 10.0
    once: bool = False  # what is there, and no waiting
    now_s: Callable[[], float] = time.time
    sleep_s: Callable[[float], None] = time.sleep


@dataclass(frozen=True, kw_only=True)
class UnreadWindow:
    """A window of which no digest could be read."""

    name: WindowName
    message: str


class Follower:
    """Goes through the windows in order. All that it knows follows from the files: started again, it says the same."""

    def __init__(self, folders: Sequence[Path], following: Following) -> None:
        self._folders, self._following = folders, following
        self._monitor = JobMonitor()
        self._done: tuple[int, int, str] | None = None  # of the last window that was read
        self._ranks: tuple[int, ...] = ()  # of the window before

    def windows(self) -> Iterator[WatchedWindow | UnreadWindow]:
        """Without end, unless it is to look once."""
        while True:
            yield from self._ready()
            if self._following.once:
                return
            self._following.sleep_s(self._following.poll_s)

    def _ready(self) -> Iterator[WatchedWindow | UnreadWindow]:
        for name, folders in window_folders(self._folders):
            if self._done is not None and name.order <= self._done:
                continue
            files = files_of(name, folders)
            if not files.written_ns:
                continue
            if not self._following.once and not self._is_complete(files):
                return  # windows are read in order
            self._done = name.order
            yield self._read(name, files.within(round(self._following.grace_s * NS_PER_S)))

    def _is_complete(self, files: WindowFiles) -> bool:
        """All ranks have come, or the time for it is over; then a moment more, for what is being listed now."""
        expected = self._stated_size(files) or len(self._ranks)
        if expected and len(files.written_ns) >= expected:
            return True
        waited_s = self._following.now_s() - min(files.written_ns.values()) / NS_PER_S
        return waited_s > self._following.grace_s + self._following.poll_s

    def _stated_size(self, files: WindowFiles) -> int:
        try:
            return world_size_of(min(files.written_ns))
        except InputError:
            return 0  # reading the window says why

    def _read(self, name: WindowName, paths: Sequence[Path]) -> WatchedWindow | UnreadWindow:
        try:
            figures = window_figures(paths, name, self._ranks)
        except InputError as error:
            return UnreadWindow(name=name, message=str(error))
        self._ranks = tuple(sorted({*figures.ranks.tolist(), *figures.silent}))
        return self._monitor.add(figures)
