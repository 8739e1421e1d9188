"""What cannot be true in a trace is dropped or mended, and counted; what only looks odd is kept."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.timeline.problems import Reason
from redline.timeline.timeline import Timeline
from tests.support.events import Event, document, kernel, launch, ledger_of, names_of, op, read_one, span

HOUR_US = 3.6e9


def ops(count: int) -> list[Event]:
    return [op(f"op {number}", 10 * number, 5) for number in range(count)]


def durations(timeline: Timeline) -> dict[str, int]:
    return dict(zip(names_of(timeline), timeline.spans.dur_ns.tolist(), strict=True))


def example_of(timeline: Timeline, reason: Reason) -> str:
    return next(problem.example for problem in timeline.source.problems if problem.reason is reason)


# --- order ------------------------------------------------------------------------------------------------------------


def test_spans_come_in_time_order_longest_first(tmp_path: Path) -> None:
    events = [op("c", 5, 1), op("inner", 0, 3), op("outer", 0, 9), op("b", 4, 1)]
    assert names_of(read_one(document(events), tmp_path)) == ["outer", "inner", "b", "c"]


def test_ties_stay_as_written(tmp_path: Path) -> None:
    events = [op(name, ts, 4) for ts in (0, 10) for name in ("z", "a", "m")]
    assert names_of(read_one(document(events), tmp_path)) == ["z", "a", "m", "z", "a", "m"]


@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30),
)
def test_any_order_of_writing_is_brought_into_time_order(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]]
) -> None:
    events = [op(f"op {number}", ts, dur) for number, (ts, dur) in enumerate(pairs)]
    timeline = read_one(document(events), tmp_path_factory.mktemp("order"))
    numbers = [int(name.removeprefix("op ")) for name in names_of(timeline)]
    assert numbers == sorted(range(len(pairs)), key=lambda number: (pairs[number][0], -pairs[number][1]))


def test_side_tables_follow_their_spans(tmp_path: Path) -> None:
    events = [span("cpu_op", f"op {number}", 100 - number, 1, args={"External id": number}) for number in range(20)]
    timeline = read_one(document(events), tmp_path)
    assert names_of(timeline) == [f"op {number}" for number in reversed(range(20))]
    assert timeline.operators.external_id.tolist() == list(reversed(range(20)))


# --- times that cannot be ---------------------------------------------------------------------------------------------


def test_an_event_that_ends_before_it_begins_is_dropped(tmp_path: Path) -> None:
    timeline = read_one(document([*ops(5), op("backwards", 12, -3)]), tmp_path)
    assert "backwards" not in names_of(timeline)
    assert ledger_of(timeline) == {Reason.NEGATIVE_DURATION: 1}
    assert example_of(timeline, Reason.NEGATIVE_DURATION) == "backwards"


def test_an_event_longer_than_any_trace_is_dropped(tmp_path: Path) -> None:
    timeline = read_one(document([*ops(5), op("eternal", 12, 1.1 * HOUR_US)]), tmp_path)
    assert "eternal" not in names_of(timeline)
    assert ledger_of(timeline) == {Reason.IMPOSSIBLE_DURATION: 1}


def test_a_long_trace_may_hold_long_events(tmp_path: Path) -> None:
    events = [op(f"op {number}", number * 0.5 * HOUR_US, 5) for number in range(6)]
    timeline = read_one(document([*events, op("long", 0, 2 * HOUR_US)]), tmp_path)
    assert (len(timeline.spans), ledger_of(timeline)) == (7, {})


@pytest.mark.parametrize("ts", [-9.2e15, -2 * HOUR_US, 2 * HOUR_US, 1.7e15, 9.2e15])
def test_stamps_of_another_clock_are_dropped(tmp_path: Path, ts: float) -> None:
    timeline = read_one(document([*ops(5), op("foreign", ts, 5)]), tmp_path)
    assert "foreign" not in names_of(timeline)
    assert ledger_of(timeline) == {Reason.FOREIGN_CLOCK: 1}
    assert timeline.window_ns == (0, 45_000)


def test_stamps_of_other_clocks_on_both_sides_are_dropped(tmp_path: Path) -> None:
    events = [op("early", -9.2e15, 5), *ops(5), op("late", 9.2e15, 5), op("late too", 9.2e15, 5)]
    timeline = read_one(document(events), tmp_path)
    assert (names_of(timeline), ledger_of(timeline)) == ([f"op {n}" for n in range(5)], {Reason.FOREIGN_CLOCK: 3})


def test_events_within_the_hour_belong_to_the_trace(tmp_path: Path) -> None:
    timeline = read_one(document([*ops(3), op("late", 0.9 * HOUR_US, 5)]), tmp_path)
    assert (len(timeline.spans), ledger_of(timeline)) == (4, {})


@pytest.mark.parametrize("dur", ["missing", -1])
def test_an_unfinished_event_lasts_to_the_end_of_the_trace(tmp_path: Path, dur: object) -> None:
    unfinished = {**op("open", 7, 0), "dur": dur}
    if dur == "missing":
        del unfinished["dur"]
    timeline = read_one(document([*ops(5), unfinished]), tmp_path)
    assert durations(timeline)["open"] == 45_000 - 7_000
    assert ledger_of(timeline) == {Reason.UNFINISHED_EVENT: 1}


def test_a_foreign_stamp_is_not_the_end_of_the_trace(tmp_path: Path) -> None:
    unfinished = {key: value for key, value in op("open", 7, 0).items() if key != "dur"}
    timeline = read_one(document([*ops(5), unfinished, op("foreign", 2 * HOUR_US, 5)]), tmp_path)
    assert durations(timeline)["open"] == 45_000 - 7_000
    assert ledger_of(timeline) == {Reason.UNFINISHED_EVENT: 1, Reason.FOREIGN_CLOCK: 1}


def test_a_trace_of_nothing_but_unfinished_events(tmp_path: Path) -> None:
    events = [{key: value for key, value in event.items() if key != "dur"} for event in ops(3)]
    timeline = read_one(document(events), tmp_path)
    assert timeline.spans.end_ns.tolist() == [20_000] * 3


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_exact_repetitions_are_dropped(tmp_path: Path) -> None:
    once = [*ops(3), launch(100, correlation=4), kernel("k", 110, 5, correlation=4)]
    timeline = read_one(document([*once, *once]), tmp_path)
    assert names_of(timeline) == ["op 0", "op 1", "op 2", "cudaLaunchKernel", "k"]
    assert ledger_of(timeline) == {Reason.DUPLICATED_EVENT: 5}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (launch(0, correlation=4), launch(0, correlation=5)),
        (kernel("k", 0, 5, correlation=4), kernel("k", 0, 5, correlation=5)),
        (kernel("k", 0, 5, stream=7), kernel("k", 0, 5, stream=8)),
        (op("a", 0, 5, tid=1), op("a", 0, 5, tid=2)),
        (op("a", 0, 5), op("b", 0, 5)),
        (op("a", 0, 5), op("a", 0, 6)),
        (
            span("cpu_op", "a", 0, 5, args={"External id": 1}),
            span("cpu_op", "a", 0, 5, args={"External id": 2}),
        ),
        (
            span("python_function", "f", 0, 5, args={"Python id": 1}),
            span("python_function", "f", 0, 5, args={"Python id": 2}),
        ),
    ],
)
def test_events_that_differ_in_anything_are_both_kept(tmp_path: Path, first: Event, second: Event) -> None:
    timeline = read_one(document([first, second, first]), tmp_path)
    assert len(timeline.spans) == 2
    assert ledger_of(timeline)[Reason.DUPLICATED_EVENT] == 1


def test_repetitions_are_found_among_many_at_one_time(tmp_path: Path) -> None:
    many = [op(f"op {number}", 0, 5) for number in range(20)]
    timeline = read_one(document([*many, *reversed(many)]), tmp_path)
    assert sorted(names_of(timeline)) == sorted(event["name"] for event in many)


# --- kernels of one stream --------------------------------------------------------------------------------------------


def chain(count: int, *, dur: float = 8, gap: float = 10, stream: int = 7) -> list[Event]:
    return [kernel(f"k{number}", gap * number, dur, correlation=number + 1, stream=stream) for number in range(count)]


def test_a_kernel_that_runs_over_the_next_ones_is_cut(tmp_path: Path) -> None:
    events = chain(8)
    events[2]["dur"] = 5000
    timeline = read_one(document(events), tmp_path)
    assert durations(timeline)["k2"] == 10_000  # up to where k3 begins
    assert {length for name, length in durations(timeline).items() if name != "k2"} == {8_000}
    assert ledger_of(timeline)[Reason.OVERLONG_KERNEL] == 1
    assert example_of(timeline, Reason.OVERLONG_KERNEL) == "k2"


def test_neighbours_that_overlap_a_little_are_dependent_launches(tmp_path: Path) -> None:
    timeline = read_one(document(chain(8, dur=13)), tmp_path)
    assert set(durations(timeline).values()) == {13_000}
    assert ledger_of(timeline) == {Reason.STREAM_OVERLAP: 7}


def test_less_than_a_microsecond_of_overlap_is_the_grain_of_the_clock(tmp_path: Path) -> None:
    assert ledger_of(read_one(document(chain(8, dur=10.9)), tmp_path)) == {}


def test_kernels_of_a_graph_may_run_side_by_side(tmp_path: Path) -> None:
    events = chain(8)
    events[2]["dur"] = 5000
    for number, event in enumerate(events):
        event["args"]["graph node id"] = number + 1
    timeline = read_one(document(events), tmp_path)
    assert durations(timeline)["k2"] == 5_000_000
    assert ledger_of(timeline) == {}


def test_kernels_of_other_streams_and_devices_do_not_matter(tmp_path: Path) -> None:
    long = kernel("long", 20, 5000, correlation=99, stream=8)
    timeline = read_one(document([*chain(8), long]), tmp_path)
    assert (durations(timeline)["long"], ledger_of(timeline)) == (5_000_000, {})


def test_a_long_kernel_followed_by_few_is_left_alone(tmp_path: Path) -> None:
    events = chain(4)
    events[2]["dur"] = 5000
    timeline = read_one(document(events), tmp_path)
    assert durations(timeline)["k2"] == 5_000_000
    assert ledger_of(timeline) == {Reason.STREAM_OVERLAP: 1}


def test_a_healthy_trace_has_an_empty_ledger(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 9), launch(1, correlation=1), kernel("gemm", 5, 20, correlation=1)]
    timeline = read_one(document(events), tmp_path)
    assert (names_of(timeline), ledger_of(timeline)) == (["aten::mm", "cudaLaunchKernel", "gemm"], {})
