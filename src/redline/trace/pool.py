"""The same function over many files, on several processes; a worker that dies costs its file a second try, no more."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
WORTH_BYTES = 8_000_000  # of compressed traces; less is read sooner than processes start
_TRIES = 2
_AHEAD = 2  # tasks queued per process, so that none waits


class WorkerDied(Exception):  # noqa: N818 (an outcome that is passed on, not raised)
    """The process that worked on a file was killed, twice: most likely for its memory."""


def over_files(
    work: Callable[[Path], Result], paths: Sequence[Path], jobs: int | None = None
) -> Iterator[tuple[int, Result | WorkerDied]]:
    """Index and result for each path, in the order in which they finish."""
    processes = min(jobs or os.cpu_count() or 1, len(paths))
    if processes <= 1 or (jobs is None and _total_bytes(paths) < WORTH_BYTES):
        for index, path in enumerate(paths):
            yield index, work(path)
        return
    waiting = [(index, 1) for index in reversed(range(len(paths)))]
    while waiting:
        yield from _until_broken(work, paths, waiting, processes)


def _until_broken(
    work: Callable[[Path], Result], paths: Sequence[Path], waiting: list[tuple[int, int]], processes: int
) -> Iterator[tuple[int, Result | WorkerDied]]:
    """Work through `waiting` with one pool; if the pool breaks, put back what was under way."""
    running: dict[Future[Result], tuple[int, int]] = {}
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < processes * _AHEAD:
                    task = waiting.pop()
                    running[pool.submit(work, paths[task[0]])] = task
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield running.pop(future)[0], result
        except BrokenProcessPool:
            for index, tries in running.values():
                if tries < _TRIES:
                    waiting.append((index, tries + 1))
                else:
                    yield index, WorkerDied()


def _total_bytes(paths: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())
