"""The ledger: every nanosecond of every step in one account; the sums are exact whatever the trace."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.hardware.machine import Machine
from redline.ledger.accounts import ACCOUNTS, BUSY, COMPUTE, IDLE, Account, place
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.ledger import Ledger
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region, span
from tests.support.machines import PRODUCT, machine_with

MATH_NS, MEMORY_NS = 1000.0, 1600.0  # that a product needs on this machine
MACHINE = machine_with(MATH_NS, MEMORY_NS)


def ledger(events: Sequence[Event], machine: Machine | None = MACHINE) -> Ledger:
    with TemporaryDirectory() as folder:
        return digest_of(read_one(document(events), Path(folder)), machine).ledger


def amounts(values: np.typing.NDArray[np.int64]) -> dict[Account, int]:
    """Accounts that are not empty."""
    return {account: value for account, value in zip(ACCOUNTS, values.tolist(), strict=True) if value}


def product(at: float, correlation: int, start: float, dur: float) -> list[Event]:
    """A matrix product that the host calls at one time, and its kernel at another."""
    return [
        op("aten::mm", at, 2, **PRODUCT),
        launch(at + 0.5, correlation, dur=1),
        kernel("gemm", start, dur, correlation=correlation),
    ]


# --- what is in which account -----------------------------------------------------------------------------------------


def test_a_kernel_is_split_into_arithmetic_bytes_and_loss() -> None:
    found = ledger([region("ProfilerStep#1", 0, 20), *product(0, 1, 10, 4)])
    assert amounts(found.steps[0]) == {
        Account.MATH: 1000,
        Account.MEMORY: 600,
        Account.KERNEL_LOSS: 2400,
        Account.HOST: 1500 + 6000,
        Account.QUEUE: 8500,
    }


def test_without_roofs_all_of_it_is_unrated() -> None:
    found = ledger([region("ProfilerStep#1", 0, 20), *product(0, 1, 10, 4)], None)
    assert found.of(Account.UNRATED) == 4000
    assert sum(map(found.of, COMPUTE)) == 4000


def test_a_kernel_on_a_border_is_shared_between_its_steps() -> None:
    found = ledger([region("ProfilerStep#1", 0, 41), region("ProfilerStep#2", 41, 40), *product(0, 1, 40, 4)])
    assert found.steps[:, place(Account.MATH)].tolist() == [250, 750]
    assert found.steps[:, place(Account.MEMORY)].tolist() == [150, 450]
    assert found.steps[:, place(Account.KERNEL_LOSS)].tolist() == [600, 1800]


def test_kernels_that_run_at_once_need_their_arithmetic_each() -> None:
    events = [*product(0, 1, 10, 4), *product(3, 2, 10, 4)]
    events[-1]["tid"] = events[-1]["args"]["stream"] = 8
    found = ledger(events)
    assert (found.of(Account.MATH), found.of(Account.MEMORY), found.of(Account.KERNEL_LOSS)) == (2000, 1200, 800)


def test_of_what_is_impossible_no_more_than_the_time_is_credited() -> None:
    found = ledger(product(0, 1, 10, 0.5))
    assert (found.of(Account.MATH), found.of(Account.MEMORY), found.of(Account.KERNEL_LOSS)) == (500, 0, 0)


def test_waiting_for_peers_is_still_in_transfer() -> None:
    found = ledger([collective(0, 10), kernel("Memcpy DtoD", 10, 5, category="gpu_memcpy")])
    assert amounts(found.total) == {Account.TRANSFER: 10_000, Account.COPY: 5_000}


# --- steps and the time outside them ----------------------------------------------------------------------------------


def test_what_lies_outside_steps_is_kept_apart() -> None:
    found = ledger(
        [
            region("ProfilerStep#1", 10, 10),
            region("ProfilerStep#2", 25, 10),
            kernel("early", 0, 5),
            kernel("between", 20, 5),
            kernel("in it", 26, 4),
            kernel("late", 38, 2),
        ]
    )
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([10_000, 25_000], [20_000, 35_000])
    assert found.steps.sum(axis=1).tolist() == [10_000, 10_000]
    assert found.outside[place(Account.UNRATED)] == 12_000
    assert int(found.outside.sum()) == 20_000
    assert found.window_ns == 40_000


def test_steps_are_clipped_to_the_window_of_the_job() -> None:
    polls = [span("cuda_runtime", "cudaEventQuery", at, 1, tid=77) for at in (0, 1000)]
    found = ledger([*polls, op("aten::x", 100, 5), launch(102, 1), kernel("k", 110, 10, correlation=1)])
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([100_000], [120_000])
    assert amounts(found.outside) == {}


def test_a_trace_of_nothing_has_an_empty_ledger() -> None:
    found = ledger([span("Trace", "PyTorch Profiler (0)", 0, 10, pid=1, tid=1)])
    assert (found.window_ns, found.busy_ns, len(found.start_ns)) == (0, 0, 0)


# --- promises ---------------------------------------------------------------------------------------------------------


def sound() -> Ledger:
    return ledger([region("ProfilerStep#1", 5, 20), *product(0, 1, 10, 4), collective(30, 10)])


def test_a_sound_ledger_passes() -> None:
    sound().self_check()


def test_an_account_below_zero_breaks_a_promise() -> None:
    steps = sound().steps.copy()
    steps[0, place(Account.MATH)] -= 5000
    steps[0, place(Account.HOST)] += 5000
    with pytest.raises(AssertionError, match="no account is negative"):
        replace(sound(), steps=steps).self_check()
    outside = sound().outside.copy()
    outside[place(Account.TRANSFER)] -= 50_000
    outside[place(Account.HOST)] += 50_000
    with pytest.raises(AssertionError, match="no account is negative"):
        replace(sound(), outside=outside).self_check()


def test_a_step_that_does_not_add_up_breaks_a_promise() -> None:
    steps = sound().steps.copy()
    steps[0, place(Account.HOST)] += 1
    with pytest.raises(AssertionError, match="add up to each step"):
        replace(sound(), steps=steps).self_check()


def test_a_window_that_does_not_add_up_breaks_a_promise() -> None:
    with pytest.raises(AssertionError, match="add up to the window"):
        replace(sound(), window_ns=sound().window_ns + 1).self_check()


def test_a_table_of_another_shape_breaks_a_promise() -> None:
    with pytest.raises(AssertionError, match="one row per step"):
        replace(sound(), steps=sound().steps[:, 1:]).self_check()


def test_moving_keeps_every_sum() -> None:
    before = sound()
    after = before.moved(Account.TRANSFER, Account.PEER_WAIT, np.array([0]), 4000)
    after.self_check()
    assert (after.of(Account.TRANSFER), after.of(Account.PEER_WAIT)) == (6000, 4000)
    assert after.busy_ns == before.busy_ns
    assert before.of(Account.PEER_WAIT) == 0


# --- on anything ------------------------------------------------------------------------------------------------------

NAMES = ("gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD")
Random = tuple[int, int, int, str, bool]  # start, duration, stream, name, whether its work is known
random_kernels = st.lists(
    st.tuples(
        st.integers(0, 150), st.integers(0, 60), st.sampled_from([7, 8, 9]), st.sampled_from(NAMES), st.booleans()
    ),
    min_size=1,
    max_size=12,
)
random_borders = st.lists(st.integers(0, 230), unique=True, max_size=8).map(sorted)


def _written(kernels: list[Random]) -> list[Event]:
    """In nanoseconds; launches come before everything."""
    events: list[Event] = []
    for number, (start, dur, stream, name, known) in enumerate(kernels, start=1):
        category = "gpu_memcpy" if "Memcpy" in name else "kernel"
        at = -0.1 * number
        events += [
            op("aten::mm", at, 0.09, **(PRODUCT if known else {})),
            launch(at + 0.01, number, dur=0.01),
            kernel(name, start / 1000, dur / 1000, stream=stream, category=category, correlation=number),
        ]
    return events


def _owner(kernels: list[Random], name: str, at: int) -> Random | None:
    running = [one for one in kernels if one[3] == name and one[0] <= at < one[0] + one[1]]
    return min(running, key=lambda one: one[0]) if running else None


def _model(kernels: list[Random], at: int) -> str:
    owner = _owner(kernels, "gemm", at)
    if owner is not None:
        peers = [one for one in kernels if one[3] == "gemm" and one[0] == owner[0] and one[0] <= at < one[0] + one[1]]
        # Of kernels that began at once either may own the instant.
        return "either" if len({one[4] for one in peers}) > 1 else "rated" if owner[4] else "unrated"
    if _owner(kernels, "ncclDevKernel_AllReduce", at):
        return "transfer"
    return "copy" if _owner(kernels, "Memcpy HtoD", at) else "idle"


@given(random_kernels, random_borders)
def test_sums_are_exact_and_busy_time_is_what_runs(kernels: list[Random], borders: list[int]) -> None:
    pairs = list(zip(borders[::2], borders[1::2], strict=False))
    marks = [region(f"ProfilerStep#{number}", lo / 1000, (hi - lo) / 1000) for number, (lo, hi) in enumerate(pairs)]
    found = ledger([region("around", -2, 2.25), *marks, *_written(kernels)])
    found.self_check()
    assert found.window_ns == 2250
    zero = 2000  # the first event is at -2 us
    if pairs:
        assert (found.start_ns - zero).tolist() == [lo for lo, _ in pairs]
    for row, lo, hi in zip(
        found.steps.tolist(), (found.start_ns - zero).tolist(), (found.end_ns - zero).tolist(), strict=True
    ):
        _check_step(dict(zip(ACCOUNTS, row, strict=True)), [_model(kernels, at) for at in range(lo, hi)])
    busy = [at for at in range(250) if _model(kernels, at) != "idle"]
    assert found.busy_ns == len(busy)


def _check_step(step: dict[Account, int], model: list[str]) -> None:
    rated = step[Account.MATH] + step[Account.MEMORY] + step[Account.KERNEL_LOSS]
    either = model.count("either")
    assert model.count("rated") <= rated <= model.count("rated") + either
    assert rated + step[Account.UNRATED] == model.count("rated") + model.count("unrated") + either
    assert step[Account.TRANSFER] == model.count("transfer")
    assert step[Account.COPY] == model.count("copy")
    assert sum(step[account] for account in IDLE) == model.count("idle")
    assert sum(step[account] for account in BUSY) + model.count("idle") == len(model)
