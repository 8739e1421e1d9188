"""Files that others may have written: within limits of size, depth, length and range, or refused in a line."""

import json
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redline.artifacts.file_kind import ANY_NUMBER, FileKind, lines_of
from redline.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Thing:
    """A made kind of file."""

    name: str
    more: Any = None


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> FileKind[Thing]:
    monkeypatch.setattr(FileKind, "known", {})
    return FileKind("a thing", Thing, "make it again", most_bytes=8 << 20)


def refusal(kind: FileKind[Any], data: bytes | str, folder: Path) -> str:
    path = folder / "thing.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(InputError) as caught:
        kind.read(path)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 500
    return said.replace(str(path), "PATH")


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ("1e999", "Number out of range - at `$[...]`"),
        ("NaN", "more = nan is out of range"),
        ("-Infinity", "more is too large a number"),
        ('[1, {"a": 1e31}]', "more[].a = 1e+31 is out of range"),
        ("1" + "0" * 400, "more is too large a number"),
        ("7" * 5_000, "Integer value out of range"),
        ("[" * 70 + "]" * 70, "it nests deeper than 64 levels"),
        ("[" * 50_000 + "]" * 50_000, "it nests too deep"),
        ('"' + "x" * 200_001 + '"', "more is longer than 200,000 characters"),
        ('{"' + "x" * 1_001 + '": 1}', "a name in it has 1,001 characters"),
        ("[" + "[]," * 2_000_001 + "1]", "it has more than 2,000,000 lists and objects"),
    ],
    ids=range(11),
)
def test_what_is_beyond_the_limits_is_refused_in_a_line(
    kind: FileKind[Thing], more: str, wrong: str, tmp_path: Path
) -> None:
    said = refusal(kind, f'{{"name": "x", "more": {more}}}', tmp_path)
    assert said.startswith("PATH is damaged, or not a thing: ")
    assert said.endswith("; make it again")
    assert wrong in said


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"name": 5}', b'{"more": 1}', b"\0" * 99])
def test_what_is_another_file_is_refused_in_a_line(kind: FileKind[Thing], data: bytes, tmp_path: Path) -> None:
    assert refusal(kind, data, tmp_path).startswith("PATH is damaged, or not a thing: ")


def test_a_file_that_is_too_large_is_not_read(kind: FileKind[Thing], tmp_path: Path) -> None:
    with (tmp_path / "thing.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=r"above 8\.38861 MB, so it is not a thing"):
        kind.read(tmp_path / "thing.json")


def test_what_is_within_the_limits_is_read(kind: FileKind[Thing], tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    path.write_text(json.dumps({"name": "x", "more": [1e30, -1e-300, 0, {"a": [True, None, "x" * 200_000]}]}))
    assert kind.read(path).more[0] == 1e30
    path.write_text('{"name": "x", "more": Infinity}')
    assert FileKind("b", Thing, "", most_bytes=99, numbers=ANY_NUMBER).read(path).more == float("inf")


def test_a_line_that_never_ends_takes_no_more_memory_than_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.truncate(512 << 20)
        file.seek(0, 2)
        file.write(b"\n[1]\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [len(line) for line in lines_of(path)]
    assert lines[-2:] == [1, 4]
    assert max(lines) == 16 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
