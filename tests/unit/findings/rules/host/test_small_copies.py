"""RL-H06: small tensors are made on the host and copied to the device, and the host waits for each copy."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.host import PINNED_WRITE, WRITE, call, two_kernels
from tests.support.rules.matching import claimed_ns, copied, matched


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
