"""Decoded events to columns: every kind of event finds its place, and what does not fit is said."""

from pathlib import Path
from typing import Any

import pytest

from redline.timeline.problems import Reason
from redline.timeline.timeline import Kind, Timeline
from tests.support.events import Event, document, kernel, launch, ledger_of, names_of, op, read_one, row_of, span


def kind_of(timeline: Timeline, name: str) -> Kind:
    return Kind(int(timeline.spans.kind[row_of(timeline, name)]))


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("cpu_op", Kind.OPERATOR),
        ("user_annotation", Kind.ANNOTATION),
        ("python_function", Kind.PYTHON),
        ("cuda_runtime", Kind.RUNTIME),
        ("hip_runtime", Kind.RUNTIME),
        ("xpu_runtime", Kind.RUNTIME),
        ("cuda_driver", Kind.DRIVER),
        ("kernel", Kind.KERNEL),
        ("gpu_memcpy", Kind.COPY),
        ("gpu_memset", Kind.SET),
        ("cuda_sync", Kind.SYNC),
        ("gpu_user_annotation", Kind.DEVICE_ANNOTATION),
        ("overhead", Kind.OVERHEAD),
        ("Trace", Kind.PROFILER),
        ("something new", Kind.OTHER),
        ("", Kind.OTHER),
        # as of 2021
        ("Operator", Kind.OPERATOR),
        ("Kernel", Kind.KERNEL),
        ("Memcpy", Kind.COPY),
        ("Memset", Kind.SET),
        ("Runtime", Kind.RUNTIME),
    ],
)
def test_every_category_is_a_kind(tmp_path: Path, category: str, kind: Kind) -> None:
    timeline = read_one(document([span(category, "one", 0, 5), span(category, "two", 10, 5)]), tmp_path)
    assert names_of(timeline) == ["one", "two"]
    assert set(timeline.spans.kind.tolist()) == {kind}


def test_events_are_counted_by_category_and_those_without_by_phase(tmp_path: Path) -> None:
    events: list[Event] = [
        op("a", 0, 1),
        span("Operator", "b", 1, 1),
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}},
        {"ph": "i", "name": "Record Window End", "ts": 5},
        {"ph": "C", "name": "counter", "ts": 5, "args": {"n": 1}},
    ]
    assert read_one(document(events), tmp_path).source.events == {"cpu_op": 2, "ph:M": 1, "ph:i": 1, "ph:C": 1}


def test_ids_and_shapes_are_kept_as_written(tmp_path: Path) -> None:
    args = {
        "External id": 7,
        "Sequence number": 3,
        "Fwd thread id": 2,
        "Input Dims": [[4, 8], []],
        "Input type": ["float", "Scalar"],
        "Input Strides": [[8, 1], []],
        "Concrete Inputs": ["", "1"],
    }
    timeline = read_one(document([span("cpu_op", "aten::mm", 0, 5, args=args), op("last", 10, 5)]), tmp_path)
    row, found = 0, timeline.operators
    assert (found.external_id[row], found.sequence[row], found.forward_thread[row]) == (7, 3, 2)
    assert timeline.text(found.shapes[row]) == "[[4, 8], []]"
    assert timeline.text(found.dtypes[row]) == '["float", "Scalar"]'
    assert timeline.text(found.strides[row]) == "[[8, 1], []]"
    assert timeline.text(found.values[row]) == '["", "1"]'


def test_equal_shapes_are_one_text(tmp_path: Path) -> None:
    events = [span("cpu_op", "aten::mm", ts, 5, args={"Input Dims": [[4, 8], [8, 4]]}) for ts in (0, 10, 20)]
    timeline = read_one(document(events), tmp_path)
    assert {timeline.text(index) for index in timeline.operators.shapes.tolist()} == {"[[4, 8], [8, 4]]"}


def test_the_external_id_of_2021_is_the_same_field(tmp_path: Path) -> None:
    timeline = read_one(document([span("Operator", "a", 0, 5, args={"external id": 9})]), tmp_path)
    assert timeline.operators.external_id.tolist() == [9]


def test_what_is_missing_is_minus_one(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5), launch(1, correlation=3), kernel("k", 5, 5)]), tmp_path)
    operators, work = timeline.operators, timeline.device_work
    assert [operators.columns()[name].tolist() for name in ("external_id", "sequence", "shapes", "forward")] == [
        [-1]
    ] * 4
    assert (work.bytes.tolist(), work.grid.tolist(), work.graph_node.tolist()) == ([-1], [-1], [-1])


def test_details_of_device_work_are_kept(tmp_path: Path) -> None:
    events = [
        kernel("gemm", 0, 5, correlation=4, args={"grid": [1, 2, 3], "block": [128, 1, 1], "graph node id": 12}),
        kernel("Memcpy HtoD", 10, 5, category="gpu_memcpy", args={"bytes": 4096}),
        kernel("CopyHostToDevice", 20, 5, category="gpu_memcpy", args={"bytes": "8192"}),  # as ROCm writes it
        kernel("odd", 30, 5, category="gpu_memcpy", args={"bytes": "many"}),
    ]
    timeline = read_one(document(events), tmp_path)
    work = timeline.device_work
    assert [timeline.text(index) for index in work.grid.tolist()] == ["[1, 2, 3]", "", "", ""]
    assert [timeline.text(index) for index in work.block.tolist()] == ["[128, 1, 1]", "", "", ""]
    assert work.graph_node.tolist() == [12, -1, -1, -1]
    assert work.bytes.tolist() == [-1, 4096, 8192, -1]


def test_equal_texts_are_held_once(tmp_path: Path) -> None:
    events = [op(name, number, 0.5) for number, name in enumerate(["a", "b", "a", "a", "b"])]
    timeline = read_one(document(events), tmp_path)
    assert names_of(timeline) == ["a", "b", "a", "a", "b"]
    assert len(set(timeline.spans.name.tolist())) == 2
    assert len(set(timeline.texts)) == len(timeline.texts)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**25])
def test_ids_beyond_64_bits_are_missing_and_said(tmp_path: Path, number: int) -> None:
    events = [
        span("cpu_op", "a", 0, 5, args={"External id": number}),
        span("cpu_op", "b", 10, 5, args={"External id": 7}),
    ]
    timeline = read_one(document(events), tmp_path)
    assert timeline.operators.external_id.tolist() == [-1, 7]
    assert ledger_of(timeline) == {Reason.BAD_FIELD: 1}


@pytest.mark.parametrize("number", [2**31, 2**53 + 1, 2**63 - 1])
def test_large_ids_are_exact(tmp_path: Path, number: int) -> None:
    events = [launch(0, correlation=number), kernel("k", 5, 5, correlation=number)]
    timeline = read_one(document(events), tmp_path)
    assert timeline.calls.correlation.tolist() == timeline.device_work.correlation.tolist() == [number]
    assert timeline.device_work.launch.tolist() == [0]


# --- lanes ------------------------------------------------------------------------------------------------------------


def test_lanes_are_threads_and_streams_with_their_names(tmp_path: Path) -> None:
    events = [
        op("a", 0, 5, tid=11),
        op("b", 0, 5, tid=12),
        kernel("k", 0, 5, device=3, stream=20),
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 11, "args": {"name": " thread 11 (python)"}},
    ]
    timeline = read_one(document(events), tmp_path)
    lanes = {(lane.process, lane.thread): lane for lane in timeline.lanes}
    assert lanes["100", "11"].label == "thread 11 (python)"
    assert (lanes["100", "12"].label, lanes["100", "12"].on_device) == ("", False)
    assert (lanes["3", "20"].device, lanes["3", "20"].stream) == (3, 20)


def test_processes_and_threads_may_be_named_by_text(tmp_path: Path) -> None:
    timeline = read_one(document([span("cpu_op", "a", 0, 5, pid="python", tid="main")]), tmp_path)
    assert [(lane.process, lane.thread) for lane in timeline.lanes] == [("python", "main")]


def test_a_kernel_without_a_device_is_on_that_of_its_process(tmp_path: Path) -> None:
    timeline = read_one(document([span("kernel", "k", 0, 5, pid=2, tid=7)]), tmp_path)
    assert [(lane.device, lane.stream) for lane in timeline.lanes] == [(2, -1)]


# --- begin and end ----------------------------------------------------------------------------------------------------


def edge(phase: str, name: str, ts: float, tid: int = 1) -> Event:
    return {"ph": phase, "cat": "cpu_op", "name": name, "pid": 100, "tid": tid, "ts": ts}


def times_of(timeline: Timeline) -> dict[str, tuple[int, int]]:
    spans = timeline.spans
    return {
        name: (start, start + duration)
        for name, start, duration in zip(
            names_of(timeline), spans.start_ns.tolist(), spans.dur_ns.tolist(), strict=True
        )
    }


def test_begin_and_end_events_make_spans_innermost_first(tmp_path: Path) -> None:
    events = [edge("B", "outer", 0), edge("B", "inner", 2), edge("E", "", 5), edge("E", "", 9)]
    timeline = read_one(document(events), tmp_path)
    assert times_of(timeline) == {"outer": (0, 9000), "inner": (2000, 5000)}
    assert ledger_of(timeline) == {}


def test_pairs_are_found_per_thread_and_in_any_order_of_writing(tmp_path: Path) -> None:
    events = [edge("E", "", 8, tid=2), edge("E", "", 5), edge("B", "a", 0), edge("B", "b", 1, tid=2)]
    assert times_of(read_one(document(events), tmp_path)) == {"a": (0, 5000), "b": (1000, 8000)}


def test_a_begin_without_end_lasts_to_the_end_of_the_trace(tmp_path: Path) -> None:
    timeline = read_one(document([edge("B", "open", 2), op("other", 0, 10, tid=5)]), tmp_path)
    assert times_of(timeline) == {"other": (0, 10_000), "open": (2000, 10_000)}
    assert ledger_of(timeline) == {Reason.UNFINISHED_EVENT: 1}


def test_an_end_without_begin_is_said(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 10), edge("E", "lost", 5, tid=9)]), tmp_path)
    assert names_of(timeline) == ["a"]
    assert ledger_of(timeline)


# --- events without duration ------------------------------------------------------------------------------------------


def memory(ts: float, args: dict[str, Any]) -> Event:
    return {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 100, "tid": 1, "ts": ts, "args": args}


def test_memory_marks_are_kept_in_time(tmp_path: Path) -> None:
    full = {"Bytes": -512, "Device Id": 0, "Total Allocated": 1024, "Total Reserved": 2048, "Device Type": 1}
    events = [op("a", 10, 20), memory(15, full), memory(25, {"Bytes": 64})]
    timeline = read_one(document(events), tmp_path)
    marks = timeline.memory
    assert marks.at_ns.tolist() == [5_000, 15_000]
    assert marks.bytes.tolist() == [-512, 64]
    assert (marks.device.tolist()[0], marks.allocated_bytes.tolist()[0], marks.reserved_bytes.tolist()[0]) == (
        0,
        1024,
        2048,
    )


def test_instants_that_are_no_memory_marks_are_counted_only(tmp_path: Path) -> None:
    events = [op("a", 0, 5), {"ph": "i", "name": "Iteration Start", "ts": 1, "pid": 1, "tid": 1, "s": "g"}]
    timeline = read_one(document(events), tmp_path)
    assert (len(timeline.memory), timeline.source.events["ph:i"], ledger_of(timeline)) == (0, 1, {})


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({}, Reason.EMPTY_EVENT),
        ({"name": "x", "ts": 1}, Reason.MISSING_FIELD),
        ({"ph": "X", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "dur": 4}, Reason.MISSING_FIELD),
        ({"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 4}, Reason.MISSING_FIELD),
        ({"ph": "Z", "name": "x", "ts": 1}, Reason.UNKNOWN_PHASE),
    ],
)
def test_events_that_cannot_be_used_are_counted(tmp_path: Path, event: Event, reason: Reason) -> None:
    timeline = read_one(document([op("a", 0, 5), event, op("b", 10, 5)]), tmp_path)
    assert names_of(timeline) == ["a", "b"]
    assert ledger_of(timeline) == {reason: 1}


@pytest.mark.parametrize("phase", ["C", "M", "s", "t", "f", "i"])
def test_events_of_phases_that_are_understood_leave_no_trace_in_the_ledger(tmp_path: Path, phase: str) -> None:
    event = {"ph": phase, "name": "x", "cat": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 1}
    assert ledger_of(read_one(document([op("a", 0, 5), event]), tmp_path)) == {}


@pytest.mark.parametrize("escaped", [b"\\ud800", b"x\\udfffy"])
def test_half_of_a_surrogate_pair_in_a_name_is_replaced(tmp_path: Path, escaped: bytes) -> None:
    data = document([op("ODD", 0, 5), op("b", 10, 5)]).replace(b"ODD", escaped)
    timeline = read_one(data, tmp_path)
    names_of(timeline)[0].encode()
    assert names_of(timeline)[1] == "b"
    assert ledger_of(timeline) == {Reason.INVALID_UTF8: 1}


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("thread", id="name of a thread"),
        pytest.param("category", id="category"),
    ],
)
def test_half_of_a_surrogate_pair_anywhere_else_is_replaced_too(tmp_path: Path, place: str) -> None:
    events: dict[str, Event] = {
        "thread": {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "ODD"}},
        "category": span("ODD", "b", 10, 5),
    }
    timeline = read_one(document([op("a", 0, 5), events[place]]).replace(b"ODD", b"\\ud800"), tmp_path)
    "".join([*timeline.source.events, *(lane.label for lane in timeline.lanes)]).encode()
