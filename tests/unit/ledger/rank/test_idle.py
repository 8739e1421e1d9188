"""Why the device was idle: each rule by a trace made for it, and that together they leave nothing out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.accounts import IDLE, Account
from redline.ledger.rank.activity import activity_of
from redline.ledger.rank.idle import idle_of
from redline.timeline.intervals import Intervals
from tests.support.events import Event, document, kernel, launch, op, read_one, region, span

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
Found = dict[Account, list[tuple[float, float]]]


def idle(events: Sequence[Event]) -> Found:
    """Accounts that hold anything, in microseconds since the first event; what every answer promises is checked."""
    with TemporaryDirectory() as folder:
        timeline = read_one(document(events), Path(folder))
    activity = activity_of(timeline)
    found = idle_of(timeline, activity)
    assert tuple(found.accounts) == IDLE
    together = Intervals.empty()
    for time in found.accounts.values():
        time.self_check()
        assert not len(together & time)
        together |= time
    assert together == activity.idle
    _check_lanes(found.accounts, found.of_lane)
    return {account: _micros(time) for account, time in found.accounts.items() if len(time)}


def _check_lanes(accounts: Mapping[Account, Intervals], of_lane: Mapping[int, Intervals]) -> None:
    """Threads share out exactly what is put down to threads."""
    shared = Intervals.empty()
    for time in of_lane.values():
        assert not len(shared & time)
        shared |= time
    assert shared == accounts[Account.INPUT] | accounts[Account.SYNC] | accounts[Account.HOST]


def _micros(time: Intervals) -> list[tuple[float, float]]:
    return [(start / 1000, end / 1000) for start, end in zip(time.start.tolist(), time.end.tolist(), strict=True)]


def first_kernel() -> list[Event]:
    """Launched at 0, it computes from 10 to 20."""
    return [launch(0, 1), kernel("gemm", 10, 10, correlation=1)]


# --- launched late, or early ------------------------------------------------------------------------------------------


def test_a_gap_until_a_late_launch_is_the_hosts() -> None:
    found = idle([*first_kernel(), launch(50, 2), kernel("gemm", 60, 10, correlation=2)])
    assert found == {Account.HOST: [(0, 2), (20, 52)], Account.QUEUE: [(2, 10), (52, 60)]}


def test_work_that_was_submitted_early_was_queued() -> None:
    found = idle([*first_kernel(), launch(5, 2), kernel("gemm", 60, 10, correlation=2)])
    assert found == {Account.HOST: [(0, 2)], Account.QUEUE: [(2, 10), (20, 60)]}


def test_work_that_starts_before_its_launch_has_returned_waited_for_it() -> None:
    found = idle([*first_kernel(), launch(50, 2, dur=20), kernel("gemm", 55, 30, correlation=2)])
    assert found[Account.HOST] == [(0, 2), (20, 55)]


def test_gaps_inside_a_graph_are_the_devices() -> None:
    events = [
        launch(0, 1, name="cudaGraphLaunch"),
        kernel("first", 10, 10, correlation=1),
        kernel("second", 25, 10, correlation=1),
    ]
    assert idle(events) == {Account.HOST: [(0, 2)], Account.QUEUE: [(2, 10), (20, 25)]}


def test_work_without_a_launch_is_bounded_by_the_next_launch_of_its_stream() -> None:
    early = [*first_kernel(), kernel("lost", 60, 10), launch(30, 3), kernel("next", 80, 5, correlation=3)]
    assert idle(early) == {Account.HOST: [(0, 2), (20, 32)], Account.QUEUE: [(2, 10), (32, 60), (70, 80)]}
    late = [*first_kernel(), kernel("lost", 60, 10), launch(75, 3), kernel("next", 90, 5, correlation=3)]
    assert idle(late)[Account.HOST] == [(0, 2), (20, 60), (70, 77)]


def test_a_launch_on_another_stream_tells_nothing() -> None:
    events = [*first_kernel(), kernel("lost", 60, 10, stream=8), launch(30, 3), kernel("next", 80, 5, correlation=3)]
    assert idle(events)[Account.OTHER] == [(20, 60)]


# --- what the host did meanwhile --------------------------------------------------------------------------------------


def test_in_the_data_loader_it_is_input() -> None:
    events = [*first_kernel(), region(LOADER, 25, 20), launch(50, 2), kernel("gemm", 60, 10, correlation=2)]
    assert idle(events) == {
        Account.INPUT: [(25, 45)],
        Account.HOST: [(0, 2), (20, 25), (45, 52)],
        Account.QUEUE: [(2, 10), (52, 60)],
    }


def test_in_a_call_that_blocks_on_the_device_it_is_sync() -> None:
    wait = span("cuda_runtime", "cudaStreamSynchronize", 5, 25)
    found = idle([*first_kernel(), wait, launch(50, 2), kernel("gemm", 60, 10, correlation=2)])
    assert found[Account.SYNC] == [(20, 30)]
    assert found[Account.HOST] == [(0, 2), (30, 52)]


def test_a_copy_call_that_outlives_its_copy_is_sync_from_the_copys_end() -> None:
    events = [
        *first_kernel(),
        launch(15, 2, dur=35, name="cudaMemcpyAsync"),
        kernel("Memcpy DtoH", 20, 5, correlation=2, category="gpu_memcpy"),
        launch(60, 3),
        kernel("gemm", 70, 10, correlation=3),
    ]
    assert idle(events) == {
        Account.SYNC: [(25, 50)],
        Account.HOST: [(0, 2), (50, 62)],
        Account.QUEUE: [(2, 10), (62, 70)],
    }


def test_a_copy_that_blocks_had_been_submitted_when_it_was_called() -> None:
    events = [
        *first_kernel(),
        launch(30, 2, dur=30, name="cudaMemcpyAsync"),
        kernel("Memcpy DtoH", 50, 5, correlation=2, category="gpu_memcpy"),
    ]
    found = idle(events)
    assert found[Account.HOST] == [(0, 2), (20, 30)]
    assert found[Account.QUEUE] == [(2, 10), (30, 50)]
    assert found[Account.SYNC] == [(55, 60)]


def test_a_copy_that_ended_before_its_call_blocks_during_the_call_only() -> None:
    """Clocks of host and device may disagree."""
    events = [
        *first_kernel(),
        kernel("Memcpy DtoH", 20, 5, correlation=2, category="gpu_memcpy"),
        launch(40, 2, name="cudaMemcpyAsync"),
        launch(60, 3),
        kernel("gemm", 70, 10, correlation=3),
    ]
    assert idle(events)[Account.SYNC] == [(40, 42)]


def test_the_loader_comes_before_what_it_waits_in() -> None:
    wait = span("cuda_runtime", "cudaStreamSynchronize", 25, 10)
    events = [*first_kernel(), region(LOADER, 25, 20), wait, launch(50, 2), kernel("gemm", 60, 10, correlation=2)]
    found = idle(events)
    assert found[Account.INPUT] == [(25, 45)]
    assert Account.SYNC not in found


def test_a_silent_thread_may_have_waited_for_another_in_the_loader() -> None:
    backward = [launch(50, 2, tid=2), kernel("bwd", 60, 10, correlation=2)]
    found = idle([*first_kernel(), region(LOADER, 25, 20), *backward])
    assert found[Account.INPUT] == [(25, 45)]
    assert found[Account.HOST] == [(0, 2), (20, 25), (45, 52)]


def test_a_thread_that_is_busy_did_not_wait_for_another() -> None:
    backward = [op("AddmmBackward0", 22, 30, tid=2), launch(50, 2, tid=2), kernel("bwd", 60, 10, correlation=2)]
    found = idle([*first_kernel(), region(LOADER, 25, 20), *backward])
    assert Account.INPUT not in found
    assert found[Account.HOST] == [(0, 2), (20, 52)]


def test_a_region_around_a_thread_says_nothing_of_what_it_does() -> None:
    around = region("backward", 22, 30, tid=2)
    backward = [launch(50, 2, tid=2), kernel("bwd", 60, 10, correlation=2)]
    found = idle([*first_kernel(), region(LOADER, 25, 20), around, *backward])
    assert found[Account.INPUT] == [(25, 45)]


def test_a_silent_thread_may_have_waited_for_another_that_was_blocked() -> None:
    wait = span("cuda_runtime", "cudaStreamSynchronize", 5, 25)
    found = idle([*first_kernel(), wait, launch(50, 2, tid=2), kernel("bwd", 60, 10, correlation=2)])
    assert found[Account.SYNC] == [(20, 30)]


def test_nobody_waits_for_a_watchdog() -> None:
    watchdog = span("cuda_runtime", "cudaEventSynchronize", 0, 100, tid=77)
    found = idle([*first_kernel(), watchdog, launch(50, 2), kernel("gemm", 60, 10, correlation=2)])
    assert found == {Account.HOST: [(0, 2), (20, 52)], Account.QUEUE: [(2, 10), (52, 60)]}


# --- after the last launch --------------------------------------------------------------------------------------------


def test_after_the_last_launch_only_what_is_recorded_is_the_hosts() -> None:
    found = idle([*first_kernel(), op("aten::print", 30, 10), region("around", 0, 60)])
    assert found == {
        Account.HOST: [(0, 2), (20, 60)],  # a region is recorded too: the thread was at work, whatever it did
        Account.QUEUE: [(2, 10)],
    }
    found = idle([*first_kernel(), op("aten::print", 30, 10), op("aten::print", 60, 10)])
    assert found == {
        Account.HOST: [(0, 2), (30, 40), (60, 70)],
        Account.QUEUE: [(2, 10)],
        Account.OTHER: [(20, 30), (40, 60)],
    }


def test_after_the_last_launch_the_loader_is_input() -> None:
    found = idle([*first_kernel(), region(LOADER, 30, 10)])
    assert found == {
        Account.INPUT: [(30, 40)],
        Account.HOST: [(0, 2)],
        Account.QUEUE: [(2, 10)],
        Account.OTHER: [(20, 30)],
    }


def test_without_a_host_idle_time_is_not_explained() -> None:
    assert idle([kernel("a", 0, 10), kernel("b", 30, 10)]) == {Account.OTHER: [(10, 30)]}


# --- on a CPU ---------------------------------------------------------------------------------------------------------


def test_on_a_cpu_the_main_thread_answers_for_the_gaps() -> None:
    found = idle([op("aten::mm", 0, 10), region(LOADER, 12, 5), op("aten::mm", 20, 10), op("aten::mm", 40, 1, tid=2)])
    assert found == {
        Account.INPUT: [(12, 17)],
        Account.HOST: [(10, 12), (17, 20)],
        Account.OTHER: [(30, 40)],  # the main thread is not recorded any more
    }


# --- everything together ----------------------------------------------------------------------------------------------

device_events = st.lists(
    st.tuples(
        st.integers(0, 150),
        st.integers(0, 30),
        st.sampled_from([7, 8]),
        st.sampled_from(["gemm", "ncclDevKernel_AllReduce", "Memcpy DtoH"]),
        st.one_of(st.none(), st.tuples(st.integers(0, 150), st.integers(0, 40), st.sampled_from([1, 2]))),
    ),
    min_size=1,
    max_size=10,
)
host_events = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.integers(0, 40),
        st.sampled_from([1, 2, 3]),
        st.sampled_from(["aten::mm", LOADER, "around", "cudaStreamSynchronize", "cudaEventQuery"]),
    ),
    max_size=10,
)


def _written(device: list[tuple[int, int, int, str, tuple[int, int, int] | None]]) -> list[Event]:
    events: list[Event] = []
    for number, (start, dur, stream, name, called) in enumerate(device, start=1):
        category = "gpu_memcpy" if "Memcpy" in name else "kernel"
        events.append(kernel(name, start, dur, stream=stream, category=category, correlation=number))
        if called is not None:
            call = "cudaMemcpyAsync" if "Memcpy" in name else "cudaLaunchKernel"
            events.append(launch(called[0], number, dur=called[1], tid=called[2], name=call))
    return events


def _host(start: int, dur: int, tid: int, name: str) -> Event:
    if name.startswith("cuda"):
        return span("cuda_runtime", name, start, dur, tid=tid)
    return op(name, start, dur, tid=tid) if name.startswith("aten") else region(name, start, dur, tid=tid)


@given(device_events, host_events)
def test_the_accounts_share_out_the_idle_time_exactly(
    device: list[tuple[int, int, int, str, tuple[int, int, int] | None]], host: list[tuple[int, int, int, str]]
) -> None:
    events = [*_written(device), *(_host(*one) for one in host)]
    found = idle([region("everything", 0, 250), *events])
    explained = np.zeros(250, int)
    for times in found.values():
        for start, end in times:
            explained[int(start) : int(end)] += 1
    busy = [any(start <= at < start + dur for start, dur, *_ in device) for at in range(250)]
    # If nothing of the device lasts, the operators are its kernels, and idle time is another.
    assert explained.tolist() == [int(not one) for one in busy] or not any(dur for _, dur, *_ in device)
