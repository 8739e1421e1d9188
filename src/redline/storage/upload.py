"""A file of this machine into a store: whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from redline.errors import OutputError, StorageError
from redline.storage.fetch import asked_state
from redline.storage.filesystems import filesystem
from redline.storage.known_objects import forget, with_access
from redline.storage.retries import tried

_WITH_FOLDERS = ("hdfs", "webhdfs", "sftp", "ssh", "ftp", "smb", "dbfs")
"""Where a file can be seen while it is written: written under another name, then renamed."""
_TRIES = 3  # of the whole; each part is tried several times by the library
_PART_BYTES, _PARTS_AT_ONCE = 16_000_000, 4  # of what S3 takes in parts


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
