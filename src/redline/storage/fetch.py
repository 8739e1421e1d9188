"""Objects fetched as files of this machine, in checked ranges, a little ahead of their turn; files uploaded whole."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from redline.artifacts import DIGEST_ENDING
from redline.errors import InputError, OutputError, StorageError
from redline.storage.filesystems import ShortReadError, filesystem, tried
from redline.storage.known_objects import ObjectState, forget, note, state_known, with_access
from redline.storage.listing import state_in
from redline.storage.spool import Copy, copy_of, keep, spool_folder

RANGE_BYTES = 8_000_000
SIDE_BY_SIDE = 4  # ranges; with their bytes, what a process needs of memory
_MOST_CHANGES = 3  # of the object while it is read
_WITH_FOLDERS = ("hdfs", "webhdfs", "sftp", "ssh", "ftp", "smb", "dbfs")
"""Where a file can be seen while it is written: written under another name, then renamed."""
_TRIES = 3  # of the whole; each part is tried several times by the library
_PART_BYTES, _PARTS_AT_ONCE = 16_000_000, 4  # of what S3 takes in parts
_DIGESTS_AT_ONCE = 8
_AHEAD = 32  # objects of at most 32 KB


def asked_state(url: str) -> ObjectState:
    """The state of an object or a folder that the store gives now. FileNotFoundError where there is none."""
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


def has_folders(url: str) -> bool:
    return url.partition(":")[0] in _WITH_FOLDERS


def upload(part: Path, url: str) -> None:
    """OutputError where it is not in the store afterwards; then nothing of it is."""
    store = filesystem(url, writes=True)
    if getattr(type(store), "_put_file", None) is None and store.protocol in ("http", "https"):
        raise OutputError(f"cannot write {url}: nothing can be uploaded there")
    try:
        tried(lambda: _put(store, part, url), url, tries=_TRIES)
        forget(url)
        size_bytes = asked_state(url).size_bytes
    except (FileNotFoundError, StorageError) as error:
        reason = str(error).removeprefix(f"{url}: ") if isinstance(error, StorageError) else "there is no such bucket"
        raise OutputError(f"cannot write {url}: {reason}") from None
    if size_bytes not in (-1, part.stat().st_size):
        raise OutputError(f"cannot write {url}: {size_bytes:,} bytes are there instead of {part.stat().st_size:,}")


def _put(store: Any, part: Path, url: str) -> None:
    if hasattr(store, "call_s3"):
        store.put_file(str(part), with_access(url), chunksize=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
    elif has_folders(url):
        target = store._strip_protocol(with_access(url))
        unfinished = f"{target}.{os.urandom(4).hex()}.part"
        try:
            store.makedirs(target.rpartition("/")[0], exist_ok=True)
            store.put_file(str(part), unfinished)
            if store.exists(target):
                store.rm_file(target)
            store.mv(unfinished, target)
        except BaseException:
            with suppress(Exception):
                store.rm_file(unfinished)
            raise
    else:
        store.put_file(str(part), with_access(url))


def fetched_ahead(paths: Sequence[Path]) -> Iterator[Path]:
    """The same paths, each when its digest is here; of a trace, which may be cached, nothing is fetched."""
    spool_folder()  # made once, not by each thread
    waiting: deque[tuple[Path, Future[None]]] = deque()
    left = iter(paths)
    with ThreadPoolExecutor(_DIGESTS_AT_ONCE) as threads:
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
