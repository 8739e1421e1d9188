"""Pickles that want to do harm are refused in one line, soon, and nothing of them is run."""

import gzip
import os
import pickle
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redline.errors import InputError
from redline.trace.snapshot.read_snapshot import read_snapshot
from tests.support.made_snapshots import MadeAllocator

MOST_S = 5.0  # of CPU time; a busy machine included


def _whole() -> bytes:
    made = MadeAllocator()
    made.alloc(1000, ("f", "a.py", 1))
    return pickle.dumps(made.snapshot(), 4)


def _proto(body: bytes) -> bytes:
    return b"\x80\x04" + body + b"."


def _text(text: str) -> bytes:
    data = text.encode()
    return b"\x8c" + bytes([len(data)]) + data


class _Calls:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._mark),)


class _Builds:
    def __init__(self) -> None:
        self.x = 1


def _hostile(mark: Path) -> Iterator[tuple[str, bytes]]:
    command = f"mkdir {mark}"
    yield "REDUCE by GLOBAL", f"cos\nsystem\n(S'{command}'\ntR.".encode()
    yield "protocol 2 GLOBAL", b"\x80\x02cos\nsystem\n(X" + struct.pack("<I", len(command)) + command.encode() + b"tR."
    yield "STACK_GLOBAL", _proto(_text("os") + _text("system") + b"\x93" + _text(command) + b"\x85R")
    yield "REDUCE inside a snapshot", pickle.dumps({"segments": [], "device_traces": [], "x": _Calls(mark)}, 4)
    yield "REDUCE as the first segment", pickle.dumps({"segments": [_Calls(mark)], "device_traces": [[]]}, 4)
    yield "REDUCE as a frame's name", _whole().replace(_text("f"), _text("os") + _text("mkdir") + b"\x93", 1)
    yield "INST", b"\x80\x04(" + _text(command) + b"ios\nsystem\n."
    yield "OBJ", _proto(b"(cos\nsystem\n" + _text(command) + b"o")
    yield "NEWOBJ and BUILD", pickle.dumps({"segments": _Builds()}, 4)
    yield "BUILD of a dict", _proto(b"}\x94}\x94" + _text("__class__") + b"K\x01sb")
    yield "NEWOBJ_EX", _proto(b"cbuiltins\nint\n)}\x92")
    yield "EXT1", _proto(b"\x82\x01")
    yield "PERSID", b"\x80\x04Pfile:///etc/passwd\n."
    yield "BINPERSID", _proto(_text("file:///etc/passwd") + b"Q")
    yield "NEXT_BUFFER", b"\x80\x05\x97."
    yield "memo bomb", _proto(b"]r\xff\xff\xff\x7f")
    yield "memo bomb as text", _proto(b"]p2147483647\n")
    yield "string of 4 GB", _proto(b"X\xff\xff\xff\xff")
    yield "bytearray of 2**62 bytes", b"\x80\x05\x96" + struct.pack("<Q", 1 << 62) + b"."
    yield "integer of 2 GB", _proto(b"\x8b\xff\xff\xff\x7f")
    yield "integer of 255 bytes", _proto(b"\x8a\xff" + b"\x01" * 255)
    yield "nesting bomb of marks", _proto(b"(" * 300_000)
    yield "nesting bomb of lists", _proto(b"]" * 300_000 + b"a" * 299_999)
    yield "nesting bomb of dicts", _proto((b"}\x94(" + _text("a")) * 10_000)
    doubled = b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86\x94" for n in range(200))
    yield "tuples that take 2**200 steps to hash", _proto(b")\x94" + doubled + b"}h\xc8K\x01s")
    same_hash = b"".join(b"\x8a\x09" + (n * sys.hash_info.modulus).to_bytes(9, "little") + b"N" for n in range(1000))
    yield "keys that all collide", _proto(b"}(" + same_hash + b"u")
    laughs = b"]\x94" + b"".join(b"](" + b"h" + bytes([n]) + (b"h" + bytes([n])) * 9 + b"e\x94" for n in range(20))
    yield "a billion laughs", _proto(laughs)
    shared = b"}\x94" + _text("segments") + b"]\x94(" + b"h\x00" * 1000 + b"es"
    yield "a list of itself", _proto(shared)
    yield "one list many times in a snapshot", pickle.dumps({"segments": [[]] * 100_000, "device_traces": []}, 4)


def _cases() -> list[tuple[str, bytes]]:
    return list(_hostile(Path("/nonexistent")))


def test_there_are_twenty_kinds() -> None:
    assert len({name for name, _data in _cases()}) >= 20


@pytest.mark.parametrize("name", [name for name, _data in _cases()])
@pytest.mark.parametrize("packed", [False, True])
def test_a_hostile_pickle_is_refused_in_one_line(tmp_path: Path, name: str, packed: bool) -> None:
    mark = tmp_path / "ran"
    data = dict(_hostile(mark))[name]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    begin = time.process_time()
    with pytest.raises(InputError) as raised:
        read_snapshot(path)
    assert time.process_time() - begin < MOST_S
    assert "\n" not in str(raised.value) or "bomb" in str(raised.value)
    assert path.name in str(raised.value)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["REDUCE inside a snapshot", "STACK_GLOBAL", "EXT1", "BINPERSID", "NEXT_BUFFER"])
def test_it_is_said_that_a_pickle_wants_to_run_something(tmp_path: Path, name: str) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(dict(_cases())[name])
    with pytest.raises(InputError, match=r"wants to import or call something .*nothing of it was run"):
        read_snapshot(path)


def test_what_is_not_run_here_is_run_by_python(tmp_path: Path) -> None:
    """The hostile pickles are real: python's own unpickler does what they say."""
    mark = tmp_path / "ran"
    pickle.loads(dict(_hostile(mark))["REDUCE inside a snapshot"])
    assert mark.exists()


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle.gz"
    path.write_bytes(gzip.compress(b"\x80\x04" + b"N" * (64 << 20), 9))
    with pytest.raises(InputError, match="a bomb"):
        read_snapshot(path)
