"""RL-H02: the host launches small kernels more slowly than the device runs them, and no step repeats another."""

from collections.abc import Sequence

import pytest

from tests.support.events import document
from tests.support.rules.host import stepping
from tests.support.rules.matching import claimed_ns, launched, matched, step


@pytest.mark.parametrize("kernels", [(30, 25, 30), (30,)])
def test_h02_takes_over_where_steps_do_not_repeat(kernels: Sequence[int]) -> None:
    data = document(stepping(*kernels))
    busy_us, tail_us = 5 * sum(kernels), 122
    assert claimed_ns(data, "RL-H02") == (1000 * len(kernels) - busy_us - tail_us - 1) * 1000
    assert "RL-H01" not in matched(data)


@pytest.mark.parametrize(("kernel_us", "gap_us", "is_bound"), [(25, 40, True), (25, 10, False), (60, 40, False)])
def test_h02_compares_kernels_with_the_gap_before_each(kernel_us: float, gap_us: float, is_bound: bool) -> None:
    """No cliff at 20 us: kernels that are shorter than the gap before each wait for their launch."""
    period_us = kernel_us + gap_us
    events = [step(0, 0, 30 * period_us)]
    for index in range(30):
        ts = period_us * index
        events += launched("add", ts + 3, kernel_us, index + 1, at=ts)
    assert ("RL-H02" in matched(document(events))) is is_bound
