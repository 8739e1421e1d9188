"""Timelines survive being packed into columns unchanged, and what no trace could have been read as is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard

from redline.errors import InputError
from redline.timeline.problems import Problem, Reason
from redline.timeline.timeline import TABLES, Timeline
from redline.trace import store
from tests.support.damage.seed import seed_trace
from tests.support.events import document, kernel, op, read_all, read_one

HEADER_AT = 8


@pytest.fixture
def timelines(tmp_path: Path) -> tuple[Timeline, ...]:
    return tuple(read_all(seed_trace(), tmp_path, "rank-0.json"))


def through(timelines: tuple[Timeline, ...]) -> tuple[Timeline, ...]:
    return store.unpacked(memoryview(b"".join(store.packed(timelines))))


def assert_same(found: Timeline, expected: Timeline) -> None:
    plain = ("origin", "rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata", "source")
    for name in plain:
        assert getattr(found, name) == getattr(expected, name)
    for table in TABLES:
        for name, array in getattr(expected, table).columns().items():
            restored = getattr(found, table).columns()[name]
            assert restored.dtype == array.dtype
            assert np.array_equal(restored, array), (table, name)


def test_what_is_packed_is_what_is_unpacked(timelines: tuple[Timeline, ...]) -> None:
    (found,) = through(timelines)
    found.self_check()
    assert_same(found, timelines[0])


def test_several_timelines_and_their_problems(tmp_path: Path) -> None:
    damaged = read_one(document([op("a", 0, 5), {}, op("käse", 10, -5)], rank=1), tmp_path)
    empty = read_one(document([]), tmp_path)
    assert damaged.source.problems
    for one, expected in zip(through((damaged, empty)), (damaged, empty), strict=True):
        assert_same(one, expected)


def test_columns_are_as_good_as_new(timelines: tuple[Timeline, ...]) -> None:
    """Whoever gets a timeline from the file can do all that a fresh one allows."""
    (found,) = through(timelines)
    assert found.window_ns == timelines[0].window_ns
    assert len(found.spans.take(np.array([0]))) == 1


def small(folder: Path) -> Timeline:
    return read_one(document([op("a", 0, 5), kernel("k", 10, 5)]), folder)


def test_bytes_cut_anywhere_are_refused(tmp_path: Path) -> None:
    whole = b"".join(store.packed((small(tmp_path),)))
    for size in range(len(whole)):
        with pytest.raises(InputError):
            store.unpacked(memoryview(whole[:size]))


def test_metadata_with_half_of_a_surrogate_pair_can_be_kept(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5)], host_name="ODD").replace(b"ODD", b"\\ud800"), tmp_path)
    assert through((timeline,))[0].metadata.host


def test_every_reason_survives(tmp_path: Path) -> None:
    timeline = small(tmp_path)
    problems = tuple(Problem(reason, 3, 7, "example") for reason in Reason)
    everything = replace(timeline, source=replace(timeline.source, problems=problems))
    assert through((everything,))[0].source.problems == problems


# --- what no trace could have been read as ----------------------------------------------------------------------------


def with_header(pieces: list[bytes], change: Callable[[dict[str, Any]], None]) -> memoryview:
    """The same columns under a header with something changed."""
    (header,) = msgspec.json.decode(zstandard.ZstdDecompressor().decompress(pieces[1]))
    change(header)
    text = zstandard.ZstdCompressor().compress(msgspec.json.encode([header]))
    return memoryview(len(text).to_bytes(HEADER_AT, "little") + text + b"".join(pieces[2:]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", 10**6),
        ("rank", -2),
        ("rank", "0"),
        ("zero_ns", 2**63),
        ("inflated_bytes", -(2**63)),
        ("events", {"kernel": 2**64}),
        ("events", {"kernel": 1.5}),
        ("origin", "invented"),
        ("texts", []),
        ("texts", [1]),
        ("lanes", []),
        ("lanes", [{"process": "1", "thread": "1", "stream": 2**63}] * 3),
        ("metadata", {"world_size": 10**9}),
        ("metadata", {"world_size": -1}),
        ("metadata", {"devices": [{"id": 2**63, "name": "x"}]}),
        ("metadata", {"group_ranks": {"0": [2**63]}}),
        ("problems", [["no-such-reason", 1, 1, ""]]),
        ("problems", [["cut-event", 2**63, 1, ""]]),
        ("columns", []),
        ("columns", [["spans", "start_ns", "<i8", -5]]),
        ("columns", [["spans", "no_such", "<i8", 5]]),
        ("columns", [["no_such", "start_ns", "<i8", 5]]),
    ],
)
def test_a_header_that_cannot_be_is_refused(tmp_path: Path, name: str, value: object) -> None:
    pieces = store.packed((small(tmp_path),))
    assert store.unpacked(with_header(pieces, lambda header: None))
    with pytest.raises(InputError, match="damaged"):
        store.unpacked(with_header(pieces, lambda header: header.__setitem__(name, value)))


@pytest.mark.parametrize("dtype", [">i8", "<f8", "<u8", "<i2", "O", "nonsense", "(2,2)<i4"])
def test_a_column_of_another_type_is_refused(tmp_path: Path, dtype: str) -> None:
    def change(header: dict[str, Any]) -> None:
        header["columns"][0][2] = dtype

    with pytest.raises(InputError, match="damaged"):
        store.unpacked(with_header(store.packed((small(tmp_path),)), change))


@pytest.mark.parametrize("known", [True, False], ids=["stated", "not stated"])
def test_a_column_that_inflates_to_a_gigabyte_is_refused_before_it_does(tmp_path: Path, known: bool) -> None:
    pieces = store.packed((small(tmp_path),))
    bomb = zstandard.ZstdCompressor(write_content_size=known).compressobj(size=10**9 if known else -1)
    zeros = bytes(10**6)
    pieces[2] = b"".join(bomb.compress(zeros) for _ in range(1000)) + bomb.flush()
    assert len(pieces[2]) < 10**5

    def change(header: dict[str, Any]) -> None:
        header["columns"][0][3] = len(pieces[2])

    with pytest.raises(InputError, match="bytes inflated"):
        store.unpacked(with_header(pieces, change))
