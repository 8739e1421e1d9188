"""A path whose text is a URL: asked about, it asks the store; opened, it is a copy on this machine."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from redline.artifacts import StoredPath
from redline.errors import OutputError, StorageError
from redline.storage import known_objects, spool
from redline.storage.known_objects import ObjectState
from redline.storage.urls import parsed

_NO_AUTHORITY = ":"  # of hdfs:///folder; a path has no empty parts
_OF_ONE_PROCESS = "memory:"
_WITHOUT_FOLDERS = ("http:", "https:")


class RemotePath(StoredPath):
    """A path of a store: /s3:/bucket/folder/file as a path, s3://bucket/folder/file as a text."""

    def __str__(self) -> str:
        if len(self.parts) < 3:
            return f"{self.name}//"
        _, scheme, authority, *rest = self.parts
        return "/".join((f"{scheme}/", "" if authority == _NO_AUTHORITY else authority, *rest))

    def __fspath__(self) -> str:
        from redline.storage.fetch import local_copy

        return str(local_copy(self))

    def __reduce__(self) -> Any:
        url = str(self)
        if url.startswith(_OF_ONE_PROCESS):
            raise StorageError(f"{url}: is in the memory of this process alone; use `jobs=1`, or files")
        folder = str(spool.spool_folder())
        return _restored, (url, known_objects.state_known(url), known_objects.access_of(url), folder)

    def state(self) -> ObjectState:
        """FileNotFoundError where there is nothing of this name."""
        url = str(self)
        known = known_objects.state_known(url)
        if known is None:
            if known_objects.is_listed(url):
                raise FileNotFoundError(2, "no such object", url)
            from redline.storage.fetch import asked_state

            known = asked_state(url)
        return known

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        state = self.state()
        if state.is_folder:
            return os.stat_result((stat.S_IFDIR | 0o755, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        # Without a time it may have changed this moment: then nothing of it is cached.
        changed_ns = state.changed_ns or time.time_ns()
        seconds = changed_ns // 1_000_000_000
        inode = int(state.tag or "0", 16)  # as with files: another content of the same name has another one
        size = max(state.size_bytes, 0)
        return os.stat_result(
            (stat.S_IFREG | 0o644, inode, 0, 1, 0, 0, size, seconds, seconds, seconds),
            {"st_atime_ns": changed_ns, "st_mtime_ns": changed_ns, "st_ctime_ns": changed_ns},
        )

    def lstat(self) -> os.stat_result:
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        try:
            self.state()
        except FileNotFoundError:
            return False
        return True

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self.exists() and not self.state().is_folder

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.exists() and self.state().is_folder

    def is_symlink(self) -> bool:
        return False

    def resolve(self, strict: bool = False) -> RemotePath:
        return self

    def iterdir(self) -> Generator[RemotePath, None, None]:
        yield from map(_of_public, self._children())

    def glob(self, pattern: str) -> Generator[RemotePath, None, None]:  # type: ignore[override,unused-ignore]
        """The entries of the folder."""
        yield from (child for child in self.iterdir() if fnmatchcase(child.name, pattern))

    def rglob(self, pattern: str) -> Generator[RemotePath, None, None]:  # type: ignore[override,unused-ignore]
        """The entries of the folder and of those below it."""
        for child in self.iterdir():
            if fnmatchcase(child.name, pattern):
                yield child
            if child.is_dir():
                yield from child.rglob(pattern)

    def _children(self) -> list[str]:
        url = str(self)
        if url.startswith(_WITHOUT_FOLDERS):
            raise StorageError(f"{url}: no file, and only files can be named there; name each")
        if not known_objects.is_listed(url):
            from redline.storage.listing import listed

            known_objects.note_listing(url, listed(url))
        return known_objects.children_of(url)

    def open(self, mode: str = "r", *arguments: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        if set(mode) & set("wax+"):
            raise OutputError(f"cannot write {self}: it can only be uploaded whole")
        return super().open(mode, *arguments, **options)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: folders of stores are what names of objects make of them, and others are made by an upload."""

    def unlink(self, missing_ok: bool = False) -> None:
        from redline.storage.filesystems import filesystem, tried

        url = str(self)
        try:
            tried(lambda: filesystem(url, writes=True).rm_file(known_objects.with_access(url)), url)
        except FileNotFoundError:
            if not missing_ok:
                raise
        known_objects.forget(url)

    def beginning(self, most_bytes: int) -> bytes:
        from redline.storage.fetch import first_bytes

        return first_bytes(str(self), self.state(), most_bytes)

    @contextmanager
    def local_part(self) -> Iterator[Path]:
        part = spool.spool_folder() / f"{os.urandom(8).hex()}-{self.name[-80:]}"
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)

    def upload(self, part: Path) -> None:
        from redline.storage.fetch import upload

        upload(part, str(self))


def remote_path(text: str) -> RemotePath:
    """From what the user gave; what gives access is kept beside."""
    url = parsed(text)
    path = _of_public(url.public)
    known_objects.note_access(str(path), url.user, url.query)
    return path


def _of_public(url: str) -> RemotePath:
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    return RemotePath("/", f"{scheme}:", authority or _NO_AUTHORITY, *filter(None, path.split("/")))


def _restored(url: str, state: ObjectState | None, access: tuple[str, str], folder: str) -> RemotePath:
    """In another process, with what this one knew."""
    known_objects.note_access(url, *access)
    if state is not None:
        known_objects.note(url, state)
    spool.share_folder(folder)
    return _of_public(url)
