"""Small objects fetched a little before their turn: one after the other, each would cost the way to the store."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from redline.artifacts import DIGEST_ENDING
from redline.errors import InputError
from redline.storage.fetch import local_copy
from redline.storage.spool import spool_folder

SIDE_BY_SIDE = 8
_AHEAD = 32  # objects of at most 32 KB


def fetched_ahead(paths: Sequence[Path]) -> Iterator[Path]:
    """The same paths, each when its digest is here; of a trace, which may be cached, nothing is fetched."""
    spool_folder()  # made once, not by each thread
    waiting: deque[tuple[Path, Future[None]]] = deque()
    left = iter(paths)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        try:
            while True:
                for path in left:
                    waiting.append((path, threads.submit(_fetch, path)))
                    if len(waiting) >= _AHEAD:
                        break
                if not waiting:
                    return
                path, fetched = waiting.popleft()
                fetched.result()
                yield path
        finally:
            threads.shutdown(cancel_futures=True)


def _fetch(path: Path) -> None:
    if path.name.endswith(DIGEST_ENDING):
        with suppress(InputError, OSError):  # reading it says why
            local_copy(path)
