"""Results in a store: whole or not at all, and never over what is there without being asked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from redline.artifacts import Envelope, read_beginning, refuse_unless_writable, write_atomic
from redline.errors import OutputError
from redline.storage import path_of

Put = Callable[[str, bytes], None]


def write(name: str, data: bytes = b"result", *, force: bool = False) -> None:
    with write_atomic(path_of(name), force=force) as file:
        file.write(data)


def test_a_file_is_uploaded_when_it_is_written() -> None:
    write("memory://out/a.json")
    assert path_of("memory://out/a.json").read_bytes() == b"result"
    assert read_beginning(path_of("memory://out/a.json"), 3) == b"res"


def test_what_fails_leaves_nothing(faulty: type) -> None:
    with pytest.raises(RuntimeError, match="in the middle"), write_atomic(path_of("faulty://out/a.json")) as file:
        file.write(b"half")
        raise RuntimeError("in the middle")
    assert not path_of("faulty://out/a.json").exists()

    def refuses(kind: str, data: bytes) -> bytes:
        if kind == "write":
            raise OSError(16, "SlowDown")
        return data

    faulty.fails = refuses  # type: ignore[attr-defined]
    with pytest.raises(OutputError, match=r"cannot write faulty://out/a.json: OSError: .*SlowDown \(3 tries\)"):
        write("faulty://out/a.json")
    assert not path_of("faulty://out/a.json").exists()


def test_an_upload_is_repeated(faulty: type) -> None:
    failures = iter([OSError(16, "SlowDown"), TimeoutError("slow")])

    def once(kind: str, data: bytes) -> bytes:
        error = next(failures, None) if kind == "write" else None
        if error is not None:
            raise error
        return data

    faulty.fails = once  # type: ignore[attr-defined]
    write("faulty://out/a.json")
    assert path_of("faulty://out/a.json").read_bytes() == b"result"


def test_what_is_there_is_kept_unless_asked(put: Put) -> None:
    put("memory://out/a.json", b"mine")
    with pytest.raises(OutputError, match=r"memory://out/a.json already exists; use `force=True` to replace it"):
        write("memory://out/a.json")
    write("memory://out/a.json", force=True)
    assert path_of("memory://out/a.json").read_bytes() == b"result"
    put("memory://out/folder/b.json", b"")
    with pytest.raises(OutputError, match="cannot write memory://out/folder: it is a folder"):
        refuse_unless_writable(path_of("memory://out/folder"), force=True)


def test_a_report_of_ours_is_replaced(put: Put) -> None:
    import json

    envelope = Envelope(kind="diagnosis", schema_version=1, made_by="test").to_dict()
    put("memory://out/a.json", json.dumps(envelope).encode())
    write("memory://out/a.json")
    assert path_of("memory://out/a.json").read_bytes() == b"result"


def test_an_object_can_only_be_written_whole(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write memory://out/a.json: it can only be uploaded whole"):
        path_of("memory://out/a.json").open("w")
