"""A timeline as events that Perfetto opens: nothing that it would drop, nothing that is lost on the way back."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.timeline.timeline import Kind, Timeline
from redline.trace.perfetto import MEMORY, PIDS_PER_RANK, RankEvents
from tests.support.damage.seed import seed_trace
from tests.support.events import Event, collective, document, kernel, launch, names_of, op, read_one, region, span

ALL = frozenset(Kind)


def written(timeline: Timeline, *, shift_ns: int = 0, kinds: frozenset[Kind] = ALL, memory: bool = True) -> list[Event]:
    return [json.loads(text) for _, text in RankEvents(timeline, shift_ns, kinds, memory=memory)]


def slices(events: list[Event]) -> list[Event]:
    return [event for event in events if event["ph"] == "X"]


def ns(us: float) -> int:
    return round(us * 1000)


def assert_no_slice_crosses_another_of_its_track(events: list[Event]) -> None:
    tracks: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for event in slices(events):
        tracks[event["pid"], event["tid"]].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    for spans in tracks.values():
        open_ends: list[int] = []
        for start, end in sorted(spans, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


# --- there and back ---------------------------------------------------------------------------------------------------

FULL = [
    region("ProfilerStep#1", 0, 100),
    span("cpu_op", "aten::mm", 5, 20, args={"External id": 3, "Sequence number": 7, "Input Dims": [[2, 3], [3, 2]]}),
    launch(10, correlation=1),
    span("python_function", "train.py(3)", 1, 60, args={"Python id": 4, "Python parent id": 2}),
    kernel("gemm", 30, 10.123, correlation=1, args={"grid": [1, 2, 3], "block": [128, 1, 1], "External id": 3}),
    kernel("Memcpy HtoD", 50, 5, correlation=2, category="gpu_memcpy", args={"bytes": 4096}),
    collective(60, 20, elements=77),
    region("gloo:all_reduce", 70, 5),
    span("cpu_op", "MmBackward0", 70, 5, tid=2, args={"Sequence number": 7, "Fwd thread id": 1}),
    {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 100,
        "tid": 1,
        "ts": 42.5,
        "args": {"Bytes": -512, "Device Id": 0, "Total Allocated": 1024, "Total Reserved": 2048},
    },
    op("last", 95, 1),
]


def back(timeline: Timeline, folder: Path, **options: Any) -> Timeline:
    """What is read from what was written."""
    return read_one(document(written(timeline, **options), rank=timeline.rank), folder, "again.json")


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    timeline = read_one(document(FULL, rank=3), tmp_path)
    found = back(timeline, tmp_path)
    for name in ("start_ns", "dur_ns", "kind", "parent"):
        assert found.spans.columns()[name].tolist() == timeline.spans.columns()[name].tolist(), name
    assert names_of(found) == names_of(timeline)
    for table in ("calls", "device_work", "python_calls", "operators"):
        for name in getattr(timeline, table).layout():
            values = [getattr(one, table).columns()[name].tolist() for one in (timeline, found)]
            if name in ("grid", "block", "shapes", "dtypes", "strides", "values"):
                values = [
                    [json.loads(one.text(index) or "null") for index in texts]
                    for one, texts in zip((timeline, found), values, strict=True)
                ]
            assert values[0] == values[1], (table, name)


def test_descriptions_of_collectives_read_back_the_same(tmp_path: Path) -> None:
    timeline = read_one(document(FULL, rank=3), tmp_path)
    found = back(timeline, tmp_path)
    for name in ("row", "in_elements", "out_elements", "group_size", "described"):
        columns = [one.communications.columns()[name].tolist() for one in (timeline, found)]
        assert columns[0] == columns[1], name
    for name in ("collective", "dtype", "group", "group_ranks"):
        texts = [
            [one.text(index) for index in one.communications.columns()[name].tolist()] for one in (timeline, found)
        ]
        assert texts[0] == texts[1], name


def test_memory_marks_read_back_the_same(tmp_path: Path) -> None:
    timeline = read_one(document(FULL, rank=3), tmp_path)
    found = back(timeline, tmp_path)
    for name in ("at_ns", "device", "bytes", "allocated_bytes", "reserved_bytes"):
        assert found.memory.columns()[name].tolist() == timeline.memory.columns()[name].tolist(), name
    assert len(found.memory) == 1


def test_a_whole_trace_reads_back_the_same(tmp_path: Path) -> None:
    timeline = read_one(seed_trace(), tmp_path)
    found = back(timeline, tmp_path)
    assert names_of(found) == names_of(timeline)
    assert found.spans.start_ns.tolist() == timeline.spans.start_ns.tolist()
    assert found.spans.dur_ns.tolist() == timeline.spans.dur_ns.tolist()
    assert found.device_work.launch.tolist() == timeline.device_work.launch.tolist()


def test_times_are_shifted_to_the_nanosecond(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0.001, 0.002), op("b", 5, 1)]), tmp_path)
    shift_ns = 3_600_000_000_007  # an hour and some
    starts = [ns(event["ts"]) for event in slices(written(timeline, shift_ns=shift_ns))]
    assert sorted(starts) == [shift_ns, shift_ns + 4_999]


# --- names and tracks -------------------------------------------------------------------------------------------------


def naming(events: list[Event], what: str) -> dict[tuple[int, int], str]:
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == what}


def test_processes_are_named_after_their_rank_and_device(tmp_path: Path) -> None:
    events = [op("a", 0, 5), kernel("k", 0, 5, device=2), kernel("l", 0, 5, device=0)]
    timeline = replace(read_one(document(events), tmp_path), rank=5)
    found = naming(written(timeline), "process_name")
    assert set(found.values()) == {"Rank 5", "Rank 5 GPU 0", "Rank 5 GPU 2"}
    assert {pid // PIDS_PER_RANK for pid, _ in found} == {5}


def test_tracks_are_named_after_their_thread_or_stream(tmp_path: Path) -> None:
    events: list[Event] = [
        op("a", 0, 5, tid=1),
        op("b", 0, 5, tid=2),
        kernel("k", 0, 10, stream=20),
        kernel("l", 5, 10, stream=20),
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "main"}},
    ]
    found = naming(written(read_one(document(events), tmp_path)), "thread_name")
    assert sorted(found.values()) == ["main", "stream 20", "stream 20 (2)", "thread 2"]


def test_processes_of_different_ranks_differ(tmp_path: Path) -> None:
    timeline = read_one(document(FULL), tmp_path)
    first, second = ({event["pid"] for event in written(replace(timeline, rank=rank))} for rank in (0, 1))
    assert not first & second


@pytest.mark.parametrize("device", [999, 5000, -7, 2**40])
def test_a_rank_keeps_to_its_own_processes_whatever_its_devices(tmp_path: Path, device: int) -> None:
    event = span("kernel", "k", 0, 5, pid=25624, tid=7, args={"device": device})
    timeline = replace(read_one(document([op("a", 0, 5), event]), tmp_path), rank=3)
    assert {event["pid"] // PIDS_PER_RANK for event in written(timeline)} == {3}


def test_a_kernel_of_a_host_process_without_a_device(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5), span("kernel", "k", 0, 5, pid=25624, tid=7)]), tmp_path)
    assert {event["pid"] // PIDS_PER_RANK for event in written(timeline)} == {0}


def test_overlapping_kernels_go_to_further_tracks(tmp_path: Path) -> None:
    events = [kernel(f"k{number}", 10 * number, 13, correlation=number + 1) for number in range(6)]
    found = written(read_one(document(events), tmp_path))
    assert_no_slice_crosses_another_of_its_track(found)
    assert len({event["tid"] for event in slices(found)}) == 2
    assert len(slices(found)) == 6


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(1, 2)), min_size=1, max_size=25)


@given(SPANS)
def test_no_slice_of_a_track_crosses_another(
    tmp_path_factory: pytest.TempPathFactory, times: list[tuple[int, int, int]]
) -> None:
    events = [op(f"op {number}", ts, dur, tid=tid) for number, (ts, dur, tid) in enumerate(times)]
    timeline = read_one(document(events), tmp_path_factory.mktemp("tracks"))
    found = written(timeline)
    assert_no_slice_crosses_another_of_its_track(found)
    assert Counter(event["name"] for event in slices(found)) == Counter(names_of(timeline))


def test_more_overlapping_spans_than_tracks(tmp_path: Path) -> None:
    events = [op(f"op {number}", number, 1000 + number) for number in range(150)]
    assert_no_slice_crosses_another_of_its_track(written(read_one(document(events), tmp_path)))


# --- arrows -----------------------------------------------------------------------------------------------------------


def arrows(events: list[Event], category: str) -> dict[int, tuple[Event, Event]]:
    ends: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.get("cat") == category:
            ends[event["id"]].append(event)
    return {number: (pair[0], pair[1]) for number, pair in ends.items()}


def test_arrows_lead_from_launch_to_kernel(tmp_path: Path) -> None:
    found = written(read_one(document(FULL), tmp_path))
    (arrow,) = arrows(found, "ac2g").values()
    by_name = {event["name"]: event for event in slices(found)}
    for end, name in zip(arrow, ("cudaLaunchKernel", "gemm"), strict=True):
        assert (end["pid"], end["tid"], end["ts"]) == tuple(by_name[name][key] for key in ("pid", "tid", "ts"))
    assert [end["ph"] for end in arrow] == ["s", "f"]
    assert arrow[1]["bp"] == "e"


def test_arrows_lead_from_forward_to_backward(tmp_path: Path) -> None:
    found = written(read_one(document(FULL), tmp_path))
    (arrow,) = arrows(found, "fwdbwd").values()
    by_name = {event["name"]: event for event in slices(found)}
    assert [end["ts"] for end in arrow] == [by_name["aten::mm"]["ts"], by_name["MmBackward0"]["ts"]]


def test_ids_of_arrows_differ_between_ranks_and_kinds(tmp_path: Path) -> None:
    timeline = read_one(document(FULL), tmp_path)
    ids = [
        (category, number)
        for rank in (0, 1)
        for category in ("ac2g", "fwdbwd")
        for number in arrows(written(replace(timeline, rank=rank)), category)
    ]
    assert len(set(ids)) == 4


# --- what is left out -------------------------------------------------------------------------------------------------


def test_only_the_kinds_asked_for_are_written(tmp_path: Path) -> None:
    timeline = read_one(document(FULL), tmp_path)
    found = written(timeline, kinds=frozenset({Kind.KERNEL, Kind.COMMUNICATION}), memory=False)
    assert sorted({event["name"] for event in slices(found)}) == sorted(
        ["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gloo:all_reduce"]
    )
    assert {event["ph"] for event in found} == {"M", "X"}


def test_an_arrow_needs_both_its_ends(tmp_path: Path) -> None:
    timeline = read_one(document(FULL), tmp_path)
    assert arrows(written(timeline, kinds=ALL - {Kind.RUNTIME}), "ac2g") == {}
    assert arrows(written(timeline, kinds=ALL - {Kind.OPERATOR}), "fwdbwd") == {}


def test_each_text_comes_with_its_category(tmp_path: Path) -> None:
    timeline = read_one(document(FULL), tmp_path)
    for category, text in RankEvents(timeline, 0, ALL, memory=True):
        event = json.loads(text)
        expected = {"M": "", "i": MEMORY}.get(event["ph"], event.get("cat"))
        assert category == expected


@pytest.mark.parametrize("rank", [0, 1, 16_383])
def test_a_timeline_of_nothing(tmp_path: Path, rank: int) -> None:
    assert written(replace(read_one(document([]), tmp_path), rank=rank)) == []


def test_a_thread_whose_name_cannot_be_encoded(tmp_path: Path) -> None:
    name = {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "ODD"}}
    timeline = read_one(document([op("a", 0, 5), name]).replace(b"ODD", b"\\ud800"), tmp_path)
    assert len(written(timeline)) > 1


def test_names_come_before_the_slices_they_name(tmp_path: Path) -> None:
    phases = [event["ph"] for event in written(read_one(document(FULL), tmp_path))]
    assert all(not (before == "X" and after == "M") for before, after in pairwise(phases))
