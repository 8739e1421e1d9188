"""A store in memory that fails as it is told, beside fsspec's own."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

from redline.storage import filesystems, known_objects, spool  # noqa: E402


class FaultyStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Counts ranges that are read; `fails` may raise, or change what came."""

    protocol = ("faulty",)
    store: dict[str, Any] = {}  # noqa: RUF012 (as in the class above)
    pseudo_dirs = [""]  # noqa: RUF012
    reads: list[tuple[int | None, int | None]] = []  # noqa: RUF012
    fails: Callable[[str, bytes], bytes] | None = None

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(re.sub(r"faulty://([^/@]*@)?", "memory://", str(path))))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self.reads.append((start, end))
        data: bytes = super().cat_file(path, start, end)
        return type(self).fails("read", data) if type(self).fails else data  # type: ignore[misc]

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        entries: list[Any] = super().ls(path, detail=detail, **options)
        if type(self).fails and type(self).fails("list", b"") == b"lossy":  # type: ignore[misc]
            return entries[1:]
        return entries

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        if type(self).fails:
            type(self).fails("write", b"")  # type: ignore[misc]
        super().put_file(lpath, rpath, **options)


@pytest.fixture(autouse=True)
def stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both are empty; nothing is known of them; nobody waits between tries."""
    monkeypatch.setattr(filesystems, "_FIRST_PAUSE_S", 0.0)
    fsspec.register_implementation("faulty", FaultyStore, clobber=True)
    for known in (known_objects._states, known_objects._children, known_objects._users, known_objects._queries):
        known.clear()
    known_objects._listed.clear()
    filesystems._filesystem.cache_clear()
    for path in list(spool._copies):
        spool.release(path)
    for store in (MemoryFileSystem, FaultyStore):
        store.store.clear()
        store.pseudo_dirs[:] = [""]
    FaultyStore.fails, FaultyStore.reads = None, []
    yield
    filesystems._filesystem.cache_clear()


@pytest.fixture
def faulty() -> type[FaultyStore]:
    return FaultyStore


def put(url: str, data: bytes) -> None:
    scheme = url.partition(":")[0]
    fsspec.filesystem(scheme, skip_instance_cache=True).pipe(url, data)


@pytest.fixture(name="put")
def put_fixture() -> Callable[[str, bytes], None]:
    return put
