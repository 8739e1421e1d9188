"""Follow a job's windows as their digests come: by looking again, as network file systems tell of nothing."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.errors import InputError
from redline.watch.job_monitor import JobMonitor, WatchedWindow
from redline.watch.read_window import window_figures, world_size_of
from redline.watch.window_figures import WindowName
from redline.watch.window_folders import WindowFiles, files_of, window_folders

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
