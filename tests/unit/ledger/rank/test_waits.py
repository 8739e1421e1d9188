"""What held up the host, and the idle time that it can have caused: against a walk through time, step by step."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank.waits import Cause, Waits, idle_after, waits_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from tests.support.events import Event, document, kernel, launch, op, read_one, span

Pairs = list[tuple[int, int]]


def times(pairs: Pairs) -> Intervals:
    return Intervals.union_of(
        np.array([start for start, _ in pairs], np.int64), np.array([end for _, end in pairs], np.int64)
    )


def drains(*at: int) -> I64:
    return np.array(at, np.int64)


# --- the idle time ----------------------------------------------------------------------------------------------------


def test_as_much_idle_time_as_the_host_was_held_up() -> None:
    idle = times([(0, 4), (10, 14), (20, 24)])
    assert idle_after(idle, times([(2, 7)]), drains()) == times([(2, 4), (10, 13)])


def test_none_after_the_host_waits_for_the_device_again() -> None:
    idle = times([(0, 4), (10, 14), (20, 24)])
    assert idle_after(idle, times([(2, 7)]), drains(12)) == times([(2, 4), (10, 12)])


def test_being_held_up_twice_adds_up() -> None:
    idle = times([(10, 30)])
    assert idle_after(idle, times([(0, 5), (6, 9)]), drains()) == times([(10, 18)])


def test_no_idle_time_or_nothing_that_held_up() -> None:
    assert idle_after(times([]), times([(0, 5)]), drains()) == Intervals.empty()
    assert idle_after(times([(0, 5)]), times([]), drains()) == Intervals.empty()


PAIRS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 15)).map(lambda one: (one[0], one[0] + one[1])), max_size=6
)


@given(PAIRS, PAIRS, st.lists(st.integers(0, 60), max_size=4, unique=True).map(sorted))
def test_like_a_walk_through_time(idle: Pairs, held: Pairs, at: list[int]) -> None:
    """From its start, or from a drain inside it, what holds up the host is owed: as long as it lasts until a drain."""
    owed, expected = 0, []
    held_up, is_idle = times(held), times(idle).contains(np.arange(80))
    for now in range(80):
        owed = 0 if now in at else owed
        for start, end in zip(held_up.start.tolist(), held_up.end.tolist(), strict=True):
            if now == start or (now in at and start < now < end):
                owed += min([end, *(drain for drain in at if drain > now)]) - now
        if is_idle[now] and owed:
            owed -= 1
            expected.append((now, now + 1))
    assert idle_after(times(idle), held_up, drains(*at)) == times(expected)


# --- which calls waited -----------------------------------------------------------------------------------------------

READ, WRITE = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"


def waits(events: list[Event], folder: Path) -> Waits:
    found = waits_of(read_one(document(events), folder))
    found.self_check()
    return found


def launched() -> list[Event]:
    return [launch(0, 9), kernel("gemm", 1, 1, correlation=9)]


def copied(name: str, took: float) -> list[Event]:
    """A copy from 10 to 15 us, by a call that began at 0."""
    call = launch(0, 1, dur=took, name="cudaMemcpyAsync")
    return [call, kernel(name, 10, 5, correlation=1, category="gpu_memcpy", args={"bytes": 8})]


def item(copy: str = READ, call: str = "cudaMemcpyAsync") -> list[Event]:
    """aten::item of a tensor on the device: a copy at 10 us, and a wait until 15 us."""
    return [
        op("aten::item", 0, 20),
        op("aten::_local_scalar_dense", 1, 18),
        launch(2, 1, dur=10, name=call),
        kernel(copy, 10, 1, correlation=1, category="gpu_memcpy", args={"bytes": 4}),
        span("cuda_runtime", "cudaStreamSynchronize", 13, 2),
    ]


def test_a_value_that_python_reads(tmp_path: Path) -> None:
    found = waits(item(), tmp_path)
    assert found.cause.tolist() == [Cause.READ]
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([2_000], [15_000])
    assert found.bytes.tolist() == [4]


def test_a_value_that_rocm_says_stays_on_the_device(tmp_path: Path) -> None:
    found = waits(item("Memcpy DtoD (Device -> Device)", "hipMemcpyWithStream"), tmp_path)
    assert found.cause.tolist() == [Cause.READ]


def test_a_number_of_the_host_waits_for_nothing(tmp_path: Path) -> None:
    assert not len(waits([op("aten::item", 0, 5), op("aten::_local_scalar_dense", 1, 3), *launched()], tmp_path))


def test_a_copy_to_pinned_memory_that_nobody_waits_for(tmp_path: Path) -> None:
    assert not len(waits([op("aten::copy_", 0, 4), *copied("Memcpy DtoH (Device -> Pinned)", 2)], tmp_path))


def test_a_copy_to_the_device(tmp_path: Path) -> None:
    found = waits(
        [op("aten::copy_", 0, 20), *copied(WRITE, 12), span("cuda_runtime", "cudaStreamSynchronize", 13, 4)], tmp_path
    )
    assert (found.cause.tolist(), found.end_ns.tolist()) == ([Cause.WRITE], [17_000])


def test_synchronisations_with_and_without_an_operator(tmp_path: Path) -> None:
    events = [
        *launched(),
        span("cuda_runtime", "cudaDeviceSynchronize", 5, 10),
        op("c10d::barrier", 20, 10),
        span("cuda_runtime", "cudaStreamSynchronize", 22, 5),
    ]
    found = waits(events, tmp_path)
    assert found.cause.tolist() == [Cause.SYNC, Cause.SYNC]
    assert (found.operator >= 0).tolist() == [False, True]


def test_threads_that_launch_nothing_are_not_looked_at(tmp_path: Path) -> None:
    assert not len(waits([*launched(), span("cuda_runtime", "cudaStreamSynchronize", 5, 10, tid=9)], tmp_path))


def test_an_event_is_waited_for_without_the_rest_of_the_device(tmp_path: Path) -> None:
    assert not len(waits([*launched(), span("cuda_runtime", "cudaEventSynchronize", 5, 10)], tmp_path))
