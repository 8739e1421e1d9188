"""An object as a file of this machine: in ranges that are read side by side, each checked and repeated by itself."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from redline.errors import StorageError
from redline.storage.filesystems import filesystem
from redline.storage.known_objects import ObjectState, note, state_known, with_access
from redline.storage.listing import state_in
from redline.storage.retries import ShortReadError, tried
from redline.storage.spool import Copy, copy_of, keep, spool_folder

RANGE_BYTES = 8_000_000
SIDE_BY_SIDE = 4  # ranges; with their bytes, what a process needs of memory
_MOST_CHANGES = 3  # of the object while it is read


def asked_state(url: str) -> ObjectState:
    """Of an object or a folder, as the store says now. FileNotFoundError where there is none."""
    store = filesystem(url)
    state = state_in(tried(lambda: store.info(with_access(url)), url))
    note(url, state)
    return state


def first_bytes(url: str, state: ObjectState, most_bytes: int) -> bytes:
    end = most_bytes if state.size_bytes < 0 else min(most_bytes, state.size_bytes)
    return _range(url, 0, end) if end else b""


def local_copy(path: Path) -> Path:
    """The copy that this process has, else a new one. FileNotFoundError or StorageError where there can be none."""
    url = str(path)
    copy = copy_of(path, state_known(url) or asked_state(url))
    if copy is None:
        copy = spool_folder() / f"{os.getpid()}-{os.urandom(8).hex()}"
        try:
            state = _fetched(url, copy)
            keep(path, Copy(file=copy, state=state, size_bytes=copy.stat().st_size))
        except OSError as error:
            copy.unlink(missing_ok=True)
            if isinstance(error, FileNotFoundError) and error.filename == str(path):
                raise
            reason = error.strerror or error
            raise StorageError(f"{path}: no room for a copy in {copy.parent} ({reason}); set TMPDIR") from None
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
    return copy


def _fetched(url: str, copy: Path) -> ObjectState:
    """The state of the object that is in the file, all of the same."""
    state = state_known(url) or asked_state(url)
    for _ in range(_MOST_CHANGES):
        if state.is_folder:
            raise StorageError(f"{url}: is a folder; give the name of a file")
        if state.size_bytes < 0:
            _fetch_in_one(url, copy)
            return state
        try:
            _fetch_ranges(url, state.size_bytes, copy)
        except StorageError:
            if state == (state := asked_state(url)):
                raise
            continue
        if state.size_bytes <= RANGE_BYTES:  # one answer is of one state
            return state
        before, state = state, asked_state(url)
        if before == state:
            return state
    raise StorageError(f"{url}: changes while it is read; try again when it is written")


def _fetch_ranges(url: str, size_bytes: int, copy: Path) -> None:
    starts = range(0, size_bytes, RANGE_BYTES)
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def fetch(start: int) -> None:
        data = memoryview(_range(url, start, min(start + RANGE_BYTES, size_bytes)))
        while data:
            written = os.pwrite(descriptor, data, start)
            data, start = data[written:], start + written

    try:
        if len(starts) < 2:
            for start in starts:
                fetch(start)
            return
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            try:
                for _ in threads.map(fetch, starts):
                    pass
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        os.close(descriptor)


def _range(url: str, start: int, end: int) -> bytes:
    """Exactly these bytes."""
    store = filesystem(url)
    return tried(partial(_exact_range, store, with_access(url), start, end), url)


def _exact_range(store: Any, asked: str, start: int, end: int) -> bytes:
    data: bytes = store.cat_file(asked, start=start, end=end)
    if len(data) != end - start:
        raise ShortReadError(f"{len(data):,} bytes came instead of {end - start:,}, from byte {start:,} on")
    return data


def _fetch_in_one(url: str, copy: Path) -> None:
    """Where the store does not say how large it is."""
    store = filesystem(url)
    tried(lambda: store.get_file(with_access(url), str(copy)), url)
