"""The entries of a folder of a store, and the matches of a pattern in a URL: listings are repeated until they agree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redline.errors import StorageError
from redline.storage.filesystems import filesystem, tried
from redline.storage.known_objects import ObjectState, with_access

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_TAGS = ("ETag", "etag", "generation", "md5Hash", "checksum", "content_hash")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
_HIDDEN = "."


class IncompleteListingError(OSError):
    """The store said itself, or by a contradiction, that there is more than it listed."""


def listed(url: str) -> dict[str, ObjectState]:
    """Every object below a folder, by its public text; nothing where the folder does not exist."""
    first, second = dict(_pages(url)), dict(_pages(url))
    for name, state in first.items():
        if name not in second and _is_there(name):  # else it was removed in between
            second[name] = state
    return second


def _is_there(url: str) -> bool:
    store = filesystem(url)
    try:
        tried(lambda: store.info(with_access(url)), url)
    except FileNotFoundError:
        return False
    return True


def _pages(url: str) -> Iterator[tuple[str, ObjectState]]:
    store = filesystem(url)
    if hasattr(store, "call_s3"):
        return _s3_objects(store, url)
    return _walked(store, url, store._strip_protocol(with_access(url)).rstrip("/"))


def _s3_objects(store: AbstractFileSystem, url: str) -> Iterator[tuple[str, ObjectState]]:
    """Page by page, as s3fs would take a page for the last that only forgot to say how to go on."""
    bucket, _, prefix = url.partition("://")[2].partition("/")
    start = url[: len(url) - len(prefix)].rstrip("/")
    further: dict[str, str] = {}
    while True:
        page = tried(partial(_s3_page, store, bucket, f"{prefix}/" if prefix else "", further), url)
        for entry in page.get("Contents", ()):
            if not entry["Key"].endswith("/"):  # what a console makes for a folder
                yield _checked(f"{start}/{entry['Key']}"), state_in(entry | {"size": entry["Size"]})
        if not page.get("IsTruncated"):
            return
        further = {"ContinuationToken": page["NextContinuationToken"]}


def _s3_page(store: Any, bucket: str, prefix: str, further: Mapping[str, str]) -> dict[str, Any]:
    page: dict[str, Any] = store.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **further)
    token = page.get("NextContinuationToken", "")
    if page.get("IsTruncated") and token in ("", further.get("ContinuationToken")):
        raise IncompleteListingError("a page of the listing says that there is more, and not how to get it")
    count = len(page.get("Contents", ()))
    if page.get("KeyCount", count) != count:
        raise IncompleteListingError(f"a page of the listing has {count} objects and says {page['KeyCount']}")
    return page


def _walked(store: AbstractFileSystem, url: str, folder: str) -> Iterator[tuple[str, ObjectState]]:
    """Folder by folder. fsspec's own `find` leaves out what it could not list."""
    try:
        entries = tried(partial(store.ls, folder, detail=True), url)
    except FileNotFoundError:
        return
    for entry in sorted(entries, key=lambda it: str(it["name"])):
        path = str(entry["name"]).rstrip("/")
        inner = f"{url}/{path.rpartition('/')[2]}"
        if path == folder:
            continue
        if entry["type"] == "directory":
            yield from _walked(store, inner, path)
        else:
            yield _checked(inner), state_in(entry)


def _checked(url: str) -> str:
    parts = url.partition("://")[2].split("/")
    if any(part in ("", ".") for part in parts[1:]):
        raise StorageError(f"{url}: a name with an empty part, which no path can have; rename the object")
    return url


def state_in(entry: Mapping[str, Any]) -> ObjectState:
    """From what fsspec says of an object."""
    if entry.get("type") == "directory":
        return ObjectState(is_folder=True)
    size = entry.get("size")
    tag = next((str(entry[name]) for name in _TAGS if entry.get(name)), "")
    changed = next((entry[name] for name in _TIMES if entry.get(name)), None)
    return ObjectState(
        is_folder=False,
        size_bytes=-1 if size is None else int(size),
        changed_ns=_ns(changed),
        tag=hashlib.sha256(tag.strip('"').encode()).hexdigest()[:15] if tag else "",
    )


def _ns(time: object) -> int:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return 0
    if isinstance(time, datetime):
        return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1000
    return int(time * 1e9) if isinstance(time, int | float) else 0


def remote_matches(pattern: Path) -> list[Path]:
    """Objects and folders that match; only what is below the folder before the first pattern is listed."""
    parts = pattern.parts
    first = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts))
    if first == len(parts):
        return [pattern] if pattern.exists() else []
    if first < 3:  # root, scheme and bucket
        return []
    start = pattern
    while len(start.parts) > first:
        start = start.parent
    return list(dict.fromkeys(_matching(start, parts[first:])))


def _matching(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    wanted, further = parts[0], parts[1:]
    for child in folder.iterdir():
        if child.name.startswith(_HIDDEN) and not wanted.startswith(_HIDDEN):
            continue
        if wanted == "**":
            if not further:
                yield child
            if child.is_dir():
                yield from _matching(child, parts)
        elif fnmatchcase(child.name, wanted):
            if not further:
                yield child
            elif child.is_dir():
                yield from _matching(child, further)
    if wanted == "**" and further:
        yield from _matching(folder, further)
