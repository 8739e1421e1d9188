"""How a trace gets onto the disk: whole, with its checksum and within its share, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from redline.capture.settings import Settings
from redline.capture.shared_state import (
    BYTES,
    CHECKSUM,
    LOST_INCOMPLETE,
    LOST_SPACE,
    NUMBER,
    RAW_BYTES,
    STATE,
    WRITTEN,
    SharedState,
)
from redline.capture.worker.recording import writer
from redline.capture.worker.recording.writer import NotWritten, compress, room_bytes

TRACE = b'{"traceEvents": [' + b'{"name": "one"}, ' * 10_000 + b'{"name": "last"}]}'
GIB = 1 << 30


def settings(folder: Path, **values: object) -> Settings:
    return Settings({"folder": str(folder), "free_bytes": 0, **values})


def window() -> memoryview[int]:
    one = SharedState.make(1).claim(0).window(1)
    one[NUMBER] = 1
    return one


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_trace_has_its_name_when_all_of_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(TRACE)
    words = window()
    compress(str(tmp_path / "raw"), str(tmp_path / "trace.gz"), words, settings(tmp_path))
    packed = (tmp_path / "trace.gz").read_bytes()
    assert gzip.decompress(packed) == TRACE
    assert (words[STATE], words[BYTES], words[RAW_BYTES]) == (WRITTEN, len(packed), len(TRACE))
    digest = b"".join(words[CHECKSUM + at].to_bytes(8, "little", signed=True) for at in range(4))
    assert digest == hashlib.sha256(packed).digest()
    assert names(tmp_path) == ["raw", "trace.gz"]


def test_a_member_is_put_first_and_its_secrets_are_masked(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b" " + TRACE)
    member = b'"redline": {"version": 1, "name": "a --token=hf_ABCDEFGHIJKLMNOPQRST"}'
    words = window()
    compress(str(tmp_path / "raw"), str(tmp_path / "trace.gz"), words, settings(tmp_path), member)
    text = gzip.decompress((tmp_path / "trace.gz").read_bytes())
    content = json.loads(text)
    assert list(content) == ["redline", "traceEvents"]
    assert len(content["traceEvents"]) == 10_001
    assert b"ABCDEFGH" not in text
    assert words[STATE] == WRITTEN


def test_a_trace_that_is_too_large_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(os.urandom(3 << 20))
    words = window()
    with pytest.raises(NotWritten) as caught:
        compress(str(tmp_path / "raw"), str(tmp_path / "trace.gz"), words, settings(tmp_path, disk_bytes=5 << 20))
    assert (caught.value.state, words[STATE], names(tmp_path)) == (LOST_SPACE, 0, ["raw"])


FULL = """
import resource, sys
from redline.capture.shared_state import SharedState
from redline.capture.worker.recording.writer import compress
from redline.capture.settings import Settings

slot = SharedState.make(1).claim(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    compress("raw", "trace.gz", slot.window(1), Settings({"folder": ".", "free_bytes": 0}))
except OSError as error:
    print(type(error).__name__)
"""


def test_a_disk_that_takes_no_more_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(os.urandom(3 << 20))
    source = str(Path(writer.__file__).parents[4])
    words = [sys.executable, "-c", FULL]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "OSError\n", "")
    assert names(tmp_path) == ["raw"]


def test_room_is_what_the_run_may_use_and_the_disk_can_spare(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file").write_bytes(bytes(1000))
    assert room_bytes(str(tmp_path), 5000, 0) == 4000
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    assert room_bytes(str(tmp_path), 1 << 60, free + GIB) < 0


def context(folder: Path, **values: object) -> SimpleNamespace:
    return SimpleNamespace(settings=settings(folder, **values))


def test_in_the_job_nothing_is_written_that_may_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "files_may_end_us", lambda: True)
    with pytest.raises(NotWritten) as caught:
        writer._export(context(tmp_path), pytest.fail, str(tmp_path / "w/trace.gz"))  # type: ignore[arg-type]
    assert (caught.value.state, names(tmp_path / "w")) == (LOST_SPACE, [])


def test_the_floor_of_free_space_is_kept(tmp_path: Path) -> None:
    with pytest.raises(NotWritten) as caught:
        writer._export(context(tmp_path, free_bytes=1 << 60), lambda path: None, str(tmp_path / "w/trace.gz"))  # type: ignore[arg-type]
    assert (caught.value.state, names(tmp_path / "w")) == (LOST_SPACE, [])


@pytest.mark.parametrize(
    ("content", "most_bytes", "state"),
    [(TRACE[:-1], GIB, LOST_INCOMPLETE), (b"", GIB, LOST_INCOMPLETE), (TRACE[:5000], 5000, LOST_SPACE)],
)
def test_an_export_that_just_ends_is_none(content: bytes, most_bytes: int, state: int, tmp_path: Path) -> None:
    """torch says nothing when the disk is full: the file ends, under its name or with `.tmp` behind it."""

    def export(path: str) -> None:
        Path(f"{path}.tmp").write_bytes(content)

    with pytest.raises(NotWritten) as caught:
        writer._export(context(tmp_path, disk_bytes=most_bytes), export, str(tmp_path / "w/trace.gz"))  # type: ignore[arg-type]
    assert (caught.value.state, names(tmp_path / "w")) == (state, [])


FORKS_AND_IS_RUNG = """
import logging, os, signal, sys
from types import SimpleNamespace
from redline.capture.worker.recording import writer

def ring(*_):
    raise TimeoutError("ring", 3)

def hook():
    signal.raise_signal(signal.SIGALRM)
    pass

def fails():
    raise ValueError("of a hook")

signal.signal(signal.SIGALRM, ring)
os.register_at_fork(after_in_parent={hook})
if {hook!r} == "hook":
    logging._releaseLock.__code__ = hook.__code__.replace(co_name="_releaseLock")
    logging.signal = signal
window = {{}}
context = SimpleNamespace(slot=SimpleNamespace(window=lambda number: window))
try:
    writer._in_a_child(context, 1, lambda: None)
except TimeoutError as error:
    print("raised", error.args)
print(logging._lock._is_owned(), sys.unraisablehook is sys.__unraisablehook__)
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="functions in C take the lock of logging there")
def test_what_a_handler_raises_in_a_hook_of_our_fork_reaches_the_script_and_no_lock_stays_taken() -> None:
    ran = _forked("hook")
    assert (ran.stdout, ran.stderr) == ("raised ('ring', 3)\nFalse True\n", "")


def test_what_a_hook_of_the_script_raises_at_our_fork_is_told_as_python_would() -> None:
    ran = _forked("fails")
    assert ran.stdout == "False True\n"
    assert "ValueError: of a hook" in ran.stderr


def _forked(hook: str) -> subprocess.CompletedProcess[str]:
    script = FORKS_AND_IS_RUNG.format(hook=hook)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
