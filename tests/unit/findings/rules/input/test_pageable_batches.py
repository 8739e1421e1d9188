"""RL-D03: batches are copied to the device from pageable memory, and everything waits for the copy."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.host import PINNED_WRITE, WRITE, call, two_kernels
from tests.support.rules.matching import claimed_ns, copied, found, launched, matched, step


def batch_copy(name: str, size_bytes: int, *, blocking: bool = True) -> list[Event]:
    """A copy from 20 to 210 us; the host waits for it from 14 to 220 us if it is blocking."""
    wait = [call("cudaStreamSynchronize", 215, 5)] if blocking else []
    copy = copied(name, 20, 190, 3, size_bytes=size_bytes, at=14, took=200 if blocking else 2)
    return [op("aten::copy_", 12, 210 if blocking else 6), *copy, *wait]


def test_d03_claims_the_copy_and_the_wait_for_it() -> None:
    data = document(two_kernels(10, 222, *batch_copy(WRITE, 2_000_000), length=400))
    # idle from 14 to 20 and, after the copy, until the next kernel at 225
    assert claimed_ns(data, "RL-D03") == 190_000 + 6_000 + 15_000
    assert found(data)["RL-D03"].evidence[0].values["size_bytes"] == 2_000_000
    assert "RL-H06" not in matched(data)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(batch_copy(PINNED_WRITE, 2_000_000, blocking=False), id="pinned and not waited for"),
        pytest.param(batch_copy(WRITE, 900_000), id="small"),
    ],
)
def test_d03_leaves_other_copies_alone(events: list[Event]) -> None:
    assert "RL-D03" not in matched(document(two_kernels(10, 222, *events, length=400)))


def test_d03_wants_a_batch_in_every_step() -> None:
    events = two_kernels(10, 222, *batch_copy(WRITE, 2_000_000), length=400)
    again = [step(1, 400, 400), *launched("gemm", 403, 300, 9, at=400)]
    assert "RL-D03" not in matched(document([*events, *again]))
