"""Files appear whole or not at all, and every refusal says what to do."""

import errno
import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redline import __version__
from redline.artifacts import (
    Envelope,
    check_envelope,
    open_ordinary,
    read_whole,
    refuse_unless_writable,
    restart_number,
    window_number,
    write_atomic,
)
from redline.errors import InputError, OutputError

ENVELOPE = Envelope(kind="plan", schema_version=2, made_by="redline plan config.json")


def test_an_envelope_survives_json() -> None:
    record = json.loads(json.dumps({**ENVELOPE.to_dict(), "steps": []}))
    assert Envelope.from_dict(record) == ENVELOPE
    assert check_envelope(record, "plan", max_schema=2) == ENVELOPE
    assert record["redline_version"] == __version__
    assert record["synthetic"] is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "run"}, "p.json holds a 'run', not a 'plan'; give a file of that kind"),
        (
            {"schema_version": 3, "redline_version": "9.9"},
            f"p.json was written by Redline 9.9 in schema 3 of 'plan'; this is Redline {__version__}, "
            "which reads up to schema 2: upgrade it",
        ),
        ({"schema_version": 0}, "p.json has schema version 0, which never existed; make it again"),
        (
            {"schema_version": True},
            "p.json is damaged: its field 'schema_version' is True, not a int; make it again",
        ),
        ({"made_by": None}, "p.json is damaged: its field 'made_by' is None, not a str; make it again"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_envelope({**ENVELOPE.to_dict(), **change}, "plan", max_schema=2, where="p.json")
    assert str(caught.value) == message


def test_a_file_that_is_not_ours_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        check_envelope({"traceEvents": []}, "plan", max_schema=2)
    assert str(caught.value) == (
        "this file was not written by Redline: it has no field 'kind'; check that it is the right file"
    )


def test_the_file_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    with write_atomic(target) as file:
        file.write(b"whole")
        file.flush()
        assert not target.exists()
        assert [part.suffix for part in tmp_path.iterdir()] == [".part"]
    assert target.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with write_atomic(tmp_path / "out") as file:
        file.write(b"x")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, FileNotFoundError])
def test_a_failing_block_leaves_nothing_and_keeps_its_own_error(tmp_path: Path, failure: type[BaseException]) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(failure), write_atomic(tmp_path / "out", force=True) as file:
        file.write(b"half")
        raise failure
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"old")]


def test_force_replaces_what_a_link_points_at(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with write_atomic(tmp_path / "link", force=True) as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_the_longest_name_leaves_room_for_the_part(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    with write_atomic(target) as file:
        file.write(b"x")
    assert target.read_bytes() == b"x"


def _message_of_writing(path: Path, *, force: bool = False, content: bytes = b"x") -> str:
    with pytest.raises(OutputError) as caught, write_atomic(path, force=force) as file:
        file.write(content)
    return str(caught.value)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    assert (
        _message_of_writing(target)
        == f"{target} already exists; use `force=True` to replace it, or choose another name"
    )
    assert target.read_bytes() == b"old"


def test_a_file_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(OutputError, match="already exists"), write_atomic(target) as file:
        file.write(b"ours")
        target.write_bytes(b"theirs")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"theirs")]


def test_a_folder_is_not_a_target(tmp_path: Path) -> None:
    expected = f"cannot write {tmp_path}: it is a folder; give the name of a file"
    assert _message_of_writing(tmp_path, force=True) == expected


def test_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    expected = f"cannot write {pipe}: it is not an ordinary file; give another name"
    assert _message_of_writing(pipe, force=True) == expected
    assert pipe.is_fifo()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    target = tmp_path / "absent" / "out"
    expected = f"cannot write {target}: the folder {target.parent} does not exist; create it first"
    assert _message_of_writing(target) == expected


def test_what_could_not_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    refuse_unless_writable(tmp_path / "new.json", force=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OutputError, match=r"the folder .*/none does not exist; create it first$"):
        refuse_unless_writable(tmp_path / "none" / "a.json", force=False)
    (tmp_path / "old.json").write_text("kept")
    with pytest.raises(OutputError, match=r"already exists; use `force=True`"):
        refuse_unless_writable(tmp_path / "old.json", force=False)
    refuse_unless_writable(tmp_path / "old.json", force=True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "out"
    assert _message_of_writing(target) == f"cannot write {target}: {target.parent} is not a folder; give another name"


def test_a_name_that_is_too_long_is_said_to_be(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 300)
    assert _message_of_writing(target) == f"cannot write {target}: the name is too long; give a shorter one"


@pytest.fixture
def files_of_at_most_1000_bytes() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("files_of_at_most_1000_bytes")
@pytest.mark.parametrize("size_bytes", [2_000, 5_000_000])  # within and beyond the write buffer
def test_a_write_that_the_system_refuses_leaves_nothing(tmp_path: Path, size_bytes: int) -> None:
    target = tmp_path / "out"
    message = _message_of_writing(target, content=bytes(size_bytes))
    assert message == f"cannot write {target}: {os.strerror(errno.EFBIG)}"
    assert list(tmp_path.iterdir()) == []


def _failing(code: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize(
    ("step", "code", "reason"),
    [
        ("fsync", errno.ENOSPC, "the disk is full; free some space or write elsewhere"),
        ("fsync", errno.EDQUOT, "your disk quota is used up; free some space or write elsewhere"),
        ("open", errno.EACCES, "you may not write in {folder}; choose a folder that you own"),
        ("open", errno.EPERM, "you may not write in {folder}; choose a folder that you own"),
        ("open", errno.EROFS, "{folder} is on a read-only disk; write elsewhere"),
        ("open", errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_a_failing_disk_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, reason: str
) -> None:
    target = tmp_path / "out"
    monkeypatch.setattr(os, step, _failing(code))
    message = _message_of_writing(target)
    monkeypatch.undo()
    assert message == f"cannot write {target}: {reason.format(folder=tmp_path)}"
    assert list(tmp_path.iterdir()) == []


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_file_is_read_whole_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(b"12345")
    assert read_whole(path, 5, "a plan") == b"12345"
    with pytest.raises(InputError) as caught:
        read_whole(path, 4, "a plan")
    assert str(caught.value) == f"{path} is above 4e-06 MB, so it is not a plan; give another file"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_whole(tmp_path / "p.json", 5, "a plan")
    expected = f"cannot read {tmp_path / 'p.json'} as a plan: No such file or directory; check its name"
    assert str(caught.value) == expected


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize("make", [a_pipe, a_device, a_folder, a_socket])
def test_what_is_no_ordinary_file_is_refused_at_once(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    path = Path("odd")
    make(path)
    kind = {"a_pipe": "a pipe, as the shell's <(...) is"}.get(make.__name__, make.__name__.replace("_", " "))
    with pytest.raises(InputError) as caught:
        read_whole(path, 5, "a plan")
    assert str(caught.value) == f"odd is {kind}; give the name of an ordinary file"


def test_a_file_that_is_exchanged_for_a_pipe_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pipe = tmp_path / "p.json", tmp_path / "pipe"
    path.write_bytes(b"12345")
    os.mkfifo(pipe)
    is_open, opened = os.open, []

    def exchanged(_: Path, flags: int) -> int:
        opened.append(is_open(pipe, flags))
        return opened[-1]

    monkeypatch.setattr(os, "open", exchanged)
    with pytest.raises(InputError, match="is a pipe"):
        open_ordinary(path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


# --- reports of ours --------------------------------------------------------------------------------------------------

PAGE = '<!doctype html>\n<html lang="en">\n<head>\n<meta name="generator" content="Redline 1.0">\n'


@pytest.mark.parametrize("text", [PAGE, json.dumps({**ENVELOPE.to_dict(), "kind": "diagnosis"}, indent=2)])
def test_a_report_of_ours_is_replaced(tmp_path: Path, text: str) -> None:
    target = tmp_path / "report"
    target.write_text(text)
    with write_atomic(target) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize(
    "text",
    [
        "",
        PAGE.replace("Redline", "Sphinx"),
        f"<!-- {PAGE} -->",
        json.dumps({"kind": "diagnosis", "of": "a patient"}),
        json.dumps({**ENVELOPE.to_dict(), "kind": "machine-profile"}),  # measured: it cannot be made again
        json.dumps({**ENVELOPE.to_dict(), "kind": "digest"}),
    ],
)
def test_what_is_not_a_report_of_ours_is_kept(tmp_path: Path, text: str) -> None:
    target = tmp_path / "report"
    target.write_text(text)
    with pytest.raises(OutputError, match="already exists"), write_atomic(target):
        pass
    assert target.read_text() == text


# Folders of a run are told by their names.


@pytest.mark.parametrize(("name", "number"), [("window-0", 0), ("window-12", 12)])
def test_a_window(name: str, number: int) -> None:
    assert (window_number(name), restart_number(name)) == (number, None)


@pytest.mark.parametrize(("name", "number"), [("restart-1", 1), ("restart-30", 30)])
def test_a_restart(name: str, number: int) -> None:
    assert (restart_number(name), window_number(name)) == (number, None)


@pytest.mark.parametrize("name", ["", "window-", "window-x", "my-window-1", "window-1.old", "window--1", "restart-1a"])
def test_any_other_folder(name: str) -> None:
    assert (window_number(name), restart_number(name)) == (None, None)
