"""What a timeline promises, and that its own check notices when a promise is broken."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redline.timeline.table import Table
from redline.timeline.timeline import BUSY_KINDS, TABLES, Kind, Lane, Source, Spans, StepWindows, Timeline
from tests.support.events import document, kernel, launch, op, read_one, region

EVENTS = [
    region("ProfilerStep#1", 0, 50),
    region("ProfilerStep#2", 50, 50),
    op("aten::mm", 10, 20),
    launch(12, correlation=5),
    kernel("gemm", 30, 10, correlation=5),
    launch(60, correlation=6),
    kernel("gemm", 70, 10, correlation=6),
    kernel("ncclDevKernel_AllReduce", 80, 10),
    {"ph": "i", "name": "[memory]", "pid": 100, "tid": 1, "ts": 15, "args": {"Bytes": 8, "Device Id": 0}},
    {
        "ph": "X",
        "cat": "python_function",
        "name": "f",
        "pid": 100,
        "tid": 1,
        "ts": 11,
        "dur": 1,
        "args": {"Python id": 1},
    },
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler", "pid": "Spans", "tid": 0, "ts": -50, "dur": 500},
]


@pytest.fixture
def timeline(tmp_path: Path) -> Timeline:
    return read_one(document(EVENTS), tmp_path)


def with_table(timeline: Timeline, table: str, **columns: Any) -> Timeline:
    return replace(timeline, **{table: replace(getattr(timeline, table), **columns)})


def changed(timeline: Timeline, table: str, name: str, place: int, value: int) -> Timeline:
    """The timeline with one value of one column replaced."""
    array = getattr(timeline, table).columns()[name].copy()
    array[place] = value
    return with_table(timeline, table, **{name: array})


def test_the_window_is_of_the_job_not_of_the_profiler(timeline: Timeline) -> None:
    start_ns, end_ns = timeline.window_ns
    assert end_ns - start_ns == 100_000
    assert start_ns == 50_000  # the profiler's own span began earlier


def test_the_window_of_nothing_is_nothing(timeline: Timeline) -> None:
    assert replace(timeline, spans=Spans.empty()).window_ns == (0, 0)


def test_no_text_is_an_empty_text(timeline: Timeline) -> None:
    assert timeline.text(-1) == ""
    assert timeline.text(0) == timeline.texts[0]


def test_rows_of_kinds_are_in_time_order(timeline: Timeline) -> None:
    rows = timeline.spans.rows_of(Kind.KERNEL, Kind.COMMUNICATION)
    assert [timeline.text(name) for name in timeline.spans.name[rows].tolist()] == [
        "gemm",
        "gemm",
        "ncclDevKernel_AllReduce",
    ]
    assert (np.diff(rows) > 0).all()


def test_ends_are_starts_and_durations(timeline: Timeline) -> None:
    spans = timeline.spans
    assert (spans.end_ns == spans.start_ns + spans.dur_ns).all()


def test_a_lane_with_a_device_is_on_it() -> None:
    assert Lane(process="0", thread="7", device=0).on_device
    assert not Lane(process="100", thread="1").on_device


def test_a_member_of_an_archive_is_named_with_its_archive() -> None:
    assert Source(path="job.tar", member="rank0.json").name == "job.tar!rank0.json"
    assert Source(path="rank0.json").name == "rank0.json"


def test_only_device_work_makes_a_device_busy() -> None:
    assert {kind.name for kind in BUSY_KINDS} == {"KERNEL", "COMMUNICATION", "COPY", "SET"}


def test_a_timeline_as_read_keeps_its_promises(timeline: Timeline) -> None:
    timeline.self_check()


@pytest.mark.parametrize("table", list(TABLES))
def test_columns_of_unequal_length_break_a_promise(timeline: Timeline, table: str) -> None:
    last = list(getattr(timeline, table).columns())[-1]
    longer = with_table(timeline, table, **{last: np.zeros(99, np.int64)})
    with pytest.raises(AssertionError, match=rf"{TABLES[table].__name__}\.{last} has shape \(99,\)"):
        longer.self_check()


@pytest.mark.parametrize("table", ["operators", "calls", "device_work", "communications"])
@pytest.mark.parametrize("row", [-1, 10**6])
def test_rows_must_point_into_the_spans(timeline: Timeline, table: str, row: int) -> None:
    place = 0 if row < 0 else len(getattr(timeline, table)) - 1
    with pytest.raises(AssertionError, match=rf"{table}\.row points into spans"):
        changed(timeline, table, "row", place, row).self_check()


@pytest.mark.parametrize("table", ["operators", "calls", "device_work"])
def test_rows_must_ascend(timeline: Timeline, table: str) -> None:
    rows = getattr(timeline, table).row
    with pytest.raises(AssertionError, match=rf"{table}\.row ascends"):
        changed(timeline, table, "row", 1, int(rows[0])).self_check()


@pytest.mark.parametrize(
    ("table", "column", "place", "value", "promise"),
    [
        ("spans", "start_ns", 0, 10**9, "spans are ordered by start"),
        ("spans", "dur_ns", 2, -1, "no span is negative"),
        ("spans", "parent", 2, 10**6, "spans.parent points into spans"),
        ("spans", "parent", 2, 2, "parents come first"),
        ("spans", "parent", -1, 0, "parents share the lane"),
        ("spans", "lane", 0, 10**6, "spans.lane points into lanes"),
        ("spans", "lane", 0, -1, "spans have names and lanes"),
        ("spans", "kind", 0, 99, "kinds are known"),
        ("spans", "dur_ns", 2, 2**62, "times fit"),
        ("steps", "end_ns", 0, -1, "no step is negative"),
        ("steps", "start_ns", 0, -(2**62) - 1, "times fit"),
        ("memory", "at_ns", 0, 2**62, "times fit"),
        ("spans", "name", 2, 10**6, "spans.name points into texts"),
    ],
)
def test_each_broken_promise_is_named(
    timeline: Timeline, table: str, column: str, place: int, value: int, promise: str
) -> None:
    with pytest.raises(AssertionError, match=f"broken promise of a timeline: {promise}"):
        changed(timeline, table, column, place, value).self_check()


KINDS: dict[str, type[Table]] = dict(TABLES)
PLACES = [(table, column) for table, kind in KINDS.items() for column in kind.places()]


@pytest.mark.parametrize(("table", "column"), PLACES)
@pytest.mark.parametrize("value", [-2, 10**6])
def test_every_place_is_one_that_there_is(timeline: Timeline, table: str, column: str, value: int) -> None:
    if not len(getattr(timeline, table)):
        pytest.skip(f"the trace has no {table}")
    with pytest.raises(AssertionError, match=rf"{table}\.{column} points into"):
        changed(timeline, table, column, -1, value).self_check()


def test_every_index_says_what_it_is_a_place_of() -> None:
    """A column of 32 bits that says nothing is a number; these are all there are."""
    numbers = {
        (table, column)
        for table, kind in KINDS.items()
        for column, dtype in kind.layout().items()
        if dtype == np.int32 and column not in kind.places()
    }
    sizes = {("communications", name) for name in ("group_size", "source", "destination")}
    streams = {("waits", "stream"), ("event_records", "stream")}
    assert numbers == sizes | streams | {("memory", "device")}


def test_steps_must_not_overlap(timeline: Timeline) -> None:
    steps = StepWindows(start_ns=np.array([0, 10]), end_ns=np.array([11, 20]), label=np.array([-1, -1], np.int32))
    with pytest.raises(AssertionError, match="steps do not overlap"):
        replace(timeline, steps=steps).self_check()


def test_an_empty_timeline_keeps_its_promises(timeline: Timeline) -> None:
    nothing: dict[str, Any] = {name: getattr(timeline, name).empty() for name in TABLES}
    empty = replace(timeline, texts=(), lanes=(), **nothing)
    empty.self_check()
