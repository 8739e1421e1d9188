"""The same function over many files, on several processes; a worker that dies costs its file a second try, no more."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from redline.storage import ahead

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")
WORTH_BYTES = 8_000_000  # of compressed traces; less is read sooner than processes start
_AHEAD = 2  # tasks queued per process, so that none waits


class WorkerDied(Exception):  # noqa: N818 (an outcome that is passed on, not raised)
    """The process that worked on a file was killed, even when it had the machine to itself: likely for its memory."""


def over_files(
    work: Callable[[Path], Result], paths: Sequence[Path], jobs: int | None = None
) -> Iterator[tuple[int, Result | WorkerDied]]:
    """Index and result for each path, in the order in which they finish."""
    processes = min(processes_for(jobs), len(paths))
    if processes <= 1 or (jobs is None and _total_bytes(paths) < WORTH_BYTES):
        for index, path in enumerate(ahead(paths)):
            yield index, work(path)
        return
    waiting = list(reversed(range(len(paths))))
    while waiting:
        suspects: list[int] = []
        yield from _until_broken(work, paths, waiting, suspects, processes)
        for index in suspects:  # one of them kills its worker: alone, it can only harm itself
            still_suspect: list[int] = []
            yield from _until_broken(work, paths, [index], still_suspect, processes=1)
            if still_suspect:
                yield index, WorkerDied()


def processes_for(jobs: int | None) -> int:
    """How many processes may work at once: as many as asked for, else one per core."""
    return jobs or len(os.sched_getaffinity(0))


def _until_broken(
    work: Callable[[Path], Result], paths: Sequence[Path], waiting: list[int], suspects: list[int], processes: int
) -> Iterator[tuple[int, Result]]:
    """Work through `waiting` with one pool; if a worker is killed, what was under way goes to `suspects`."""
    # A fifth of the import of a verb, and most commands read one file.
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    running: dict[Future[Result], int] = {}
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < processes * _AHEAD:
                    running[pool.submit(work, paths[waiting[-1]])] = waiting[-1]
                    waiting.pop()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield running.pop(future), result
        except BrokenProcessPool:
            suspects += running.values()


def _total_bytes(paths: Sequence[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):  # reading it says what is wrong
            total += path.stat().st_size
    return total
