"""The host waits for the device: it reads numbers, copies small tensors, synchronises."""

import pytest

from tests.support.events import Event, document, op, span
from tests.support.rules.host import PINNED_WRITE, READ, WRITE, call, two_kernels
from tests.support.rules.matching import claimed_ns, copied, found, matched

# RL-H03: Python reads values from the device, and the host waits for each.


def item_of(copy: list[Event]) -> list[Event]:
    return [op("aten::item", 10, 412), op("aten::_local_scalar_dense", 11, 410), *copy]


def test_h03_claims_the_idle_time_after_a_read() -> None:
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), wait])
    data = document(two_kernels(403, 500, *reads))
    assert claimed_ns(data, "RL-H03") == 2_000 + 1_000 + 97_000  # 403 to 405, the copy, and 406 to 503 us
    finding = found(data)["RL-H03"]
    assert finding.evidence[0].values["operator"] == "aten::item"
    assert finding.evidence[0].values["blocked_ns"] == 408_000


def test_h03_claims_no_more_than_the_host_was_blocked() -> None:
    """The device had nothing to do long before: the host was blocked for 16 us only, the copy took 1."""
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = [op("aten::item", 400, 22), *copied(READ, 408, 1, 3, size_bytes=4, at=404, took=8), wait]
    assert claimed_ns(document(two_kernels(103, 900, *reads)), "RL-H03") == 17_000


def test_h03_counts_what_an_earlier_read_held_up() -> None:
    """The second read finds the device idle and takes 8 us, but without the first the host would be 408 us ahead."""
    first = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), call("cudaStreamSynchronize", 415, 5)])
    second = [op("aten::item", 424, 12), *copied(READ, 430, 1, 4, size_bytes=4, at=427, took=8)]
    assert claimed_ns(document(two_kernels(403, 500, *first, *second)), "RL-H03") == 100_000


def test_h03_leaves_numbers_of_the_host_alone() -> None:
    assert "RL-H03" not in matched(document(two_kernels(403, 500, *item_of([]))))


def test_h03_leaves_copies_alone_that_nobody_waits_for() -> None:
    copy = copied("Memcpy DtoH (Device -> Pinned)", 405, 1, 3, size_bytes=4, at=12, took=2)
    assert "RL-H03" not in matched(document(two_kernels(403, 500, op("aten::copy_", 10, 6), *copy)))


def test_h03_names_the_line_of_the_program() -> None:
    python = span("python_function", "train.py(7): log", 5, 450, args={"Python id": 1})
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), wait])
    evidence = found(document(two_kernels(403, 500, python, *reads)))["RL-H03"].evidence
    assert evidence[-1].values == {"site": "train.py(7): log"}


# RL-H04: the program waits for the whole device on purpose.


SYNC = call("cudaDeviceSynchronize", 10, 410)


def test_h04_claims_the_idle_time_after_a_synchronisation() -> None:
    data = document(two_kernels(403, 500, SYNC))
    assert claimed_ns(data, "RL-H04") == 100_000
    assert found(data)["RL-H04"].evidence[0].values["call"] == "cudaDeviceSynchronize"


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([op("c10d::barrier", 5, 420), SYNC], id="inside an operator"),
        pytest.param([call("cudaEventSynchronize", 10, 410)], id="of an event"),
        pytest.param([call("cudaDeviceSynchronize", 700, 200)], id="after the last launch"),
    ],
)
def test_h04_leaves_other_synchronisations_alone(between: list[Event]) -> None:
    assert "RL-H04" not in matched(document(two_kernels(403, 500, *between)))


# RL-H06: small tensors are made on the host and copied to the device, and the host waits for each copy.


def small_copy(name: str, size_bytes: int, *, blocking: bool = True) -> list[Event]:
    """A copy from 24 to 26 us; the host waits for it from 14 to 30 us if it is blocking."""
    wait = [call("cudaStreamSynchronize", 23, 7)] if blocking else []
    copy = copied(name, 24, 2, 3, size_bytes=size_bytes, at=14, took=8 if blocking else 2)
    return [op("aten::copy_", 12, 28 if blocking else 6), *copy, *wait]


def test_h06_claims_the_copy_and_the_wait_for_it() -> None:
    data = document(two_kernels(10, 32, *small_copy(WRITE, 4096), length=200))
    assert claimed_ns(data, "RL-H06") == 2_000 + 16_000  # idle from 14 to 24 and from 26 to 32 us
    assert "RL-D03" not in matched(data)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(small_copy(PINNED_WRITE, 4096, blocking=False), id="pinned and not waited for"),
        pytest.param(small_copy(WRITE, 64 * 1024), id="large"),
    ],
)
def test_h06_leaves_other_copies_alone(events: list[Event]) -> None:
    assert "RL-H06" not in matched(document(two_kernels(10, 32, *events, length=200)))
