"""Objects as files of this machine: in ranges, repeated within limits, gone when the work is done."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from redline.errors import InputError, StorageError
from redline.job.read_failures import attempted
from redline.storage import ahead, fetch, path_of, released_after, spool

Put = Callable[[str, bytes], None]


def in_turn(*outcomes: Exception | int | None) -> Callable[[str, bytes], bytes]:
    """Of reads, one after the other: an error, how many bytes come, or all of them; then all."""
    left = list(outcomes)

    def fails(kind: str, data: bytes) -> bytes:
        outcome = left.pop(0) if left and kind == "read" else None
        if isinstance(outcome, Exception):
            raise outcome
        return data if outcome is None else data[:outcome]

    return fails


def test_a_large_object_comes_in_ranges(put: Put, faulty: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "RANGE_BYTES", 1000)
    data = os.urandom(4321)
    put("faulty://run/a", data)
    faulty.fails = in_turn(TimeoutError("slow"), 17, None, OSError(16, "SlowDown"))  # type: ignore[attr-defined]
    assert path_of("faulty://run/a").read_bytes() == data
    wanted = {(start, min(start + 1000, 4321)) for start in range(0, 4321, 1000)}
    assert set(faulty.reads) == wanted  # type: ignore[attr-defined]
    assert len(faulty.reads) == len(wanted) + 3, "each that failed once more"  # type: ignore[attr-defined]


def test_tries_end(put: Put, faulty: type) -> None:
    put("faulty://run/a", b"0123456789")
    faulty.fails = in_turn(*[4] * 99)  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match=r"faulty://run/a: 4 bytes came instead of 10, from byte 0 on \(8 tries\)"):
        path_of("faulty://run/a").read_bytes()
    assert len(faulty.reads) == 8  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [PermissionError("no"), ValueError("x")])
def test_what_will_not_pass_is_not_repeated(put: Put, faulty: type, error: Exception) -> None:
    put("faulty://run/a", b"0123456789")
    faulty.fails = in_turn(*[error] * 9)  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match=r"^faulty://run/a: (access denied \(no\); check the cred|ValueError: x$)"):
        path_of("faulty://run/a").read_bytes()
    assert len(faulty.reads) == 1  # type: ignore[attr-defined]


def test_messages_of_a_store_give_nothing_away(put: Put, faulty: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a plain word")
    put("faulty://run/a", b"0123456789")
    text = "403 of https://me:hunter22@host/a?X-Amz-Signature=5ecre7 with a plain word and hunter22"
    faulty.fails = in_turn(PermissionError(text))  # type: ignore[attr-defined]
    with pytest.raises(StorageError) as caught:
        path_of("faulty://me:hunter22@run/a").read_bytes()
    assert str(caught.value) == (
        "faulty://run/a: access denied (403 of https://host/a with *** and ***); check the credentials of this store"
    )
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_object_that_changes_is_read_again(put: Put, faulty: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "RANGE_BYTES", 4)
    put("faulty://run/a", b"old content")

    def changing(kind: str, data: bytes) -> bytes:
        faulty.fails = None  # type: ignore[attr-defined]
        put("faulty://run/a", b"the new content")
        return data

    faulty.fails = changing  # type: ignore[attr-defined]
    assert path_of("faulty://run/a").read_bytes() == b"the new content"

    def always(kind: str, data: bytes) -> bytes:
        if kind == "read":
            put("faulty://run/b", b"and again, longer")
        return data

    faulty.fails = always  # type: ignore[attr-defined]
    put("faulty://run/b", b"0123456789")
    with pytest.raises(StorageError, match="changes while it is read; try again when it is written"):
        path_of("faulty://run/b").read_bytes()


def copies() -> list[Path]:
    return [path for path in spool.spool_folder().iterdir() if path.name != "lock"]


def test_a_copy_is_gone_when_the_work_is_done(put: Put) -> None:
    put("memory://run/a", b"content")
    before = copies()
    path = path_of("memory://run/a")
    with released_after(path):
        assert path.read_bytes() == b"content"
        assert len(copies()) == len(before) + 1
        assert copies()[-1].stat().st_mode & 0o077 == 0
    assert copies() == before
    assert attempted(lambda it: it.read_bytes(), path) == b"content"
    assert isinstance(attempted(lambda it: (it / "none").read_bytes(), path), InputError)
    assert copies() == before


def test_a_process_keeps_little(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "KEPT_BYTES", 25)
    before = len(copies())
    paths = [path_of(f"memory://run/{number}") for number in range(6)]
    for path in paths:
        put(str(path), b"0123456789")
        assert path.read_bytes() == b"0123456789"
        assert len(copies()) <= before + 2
    for path in paths:
        spool.release(path)


def test_digests_are_fetched_side_by_side_before_their_turn(put: Put, faulty: type) -> None:
    paths = [path_of(f"faulty://run/rank-{number}.digest") for number in range(40)]
    for path in paths:
        put(str(path), b"0123456789")
    together = threading.Barrier(3)

    def meets(kind: str, data: bytes) -> bytes:
        if kind == "read" and len(faulty.reads) <= 3:  # type: ignore[attr-defined]
            together.wait(60)
        return data

    faulty.fails = meets  # type: ignore[attr-defined]
    assert [path.read_bytes() for path in ahead(paths)] == [b"0123456789"] * 40
    assert len(faulty.reads) == 40  # type: ignore[attr-defined]
    traces = [path_of("faulty://run/rank-0.json")]
    assert list(ahead(traces)) == traces
    assert len(faulty.reads) == 40, "a trace may be known by its state"  # type: ignore[attr-defined]


def test_a_full_disk_is_said(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put("memory://run/a", b"content")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match=r"no room for a copy in .*No space left on device\); set TMPDIR"):
        path_of("memory://run/a").read_bytes()
