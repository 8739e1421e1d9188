"""RL-H02: the host launches small kernels more slowly than the device runs them, and no step repeats another."""

from collections.abc import Sequence

import pytest

from tests.conftest import document
from tests.unit.findings.conftest import claimed_ns, matched
from tests.unit.findings.rules.host.conftest import stepping


@pytest.mark.parametrize("kernels", [(30, 25, 30), (30,)])
def test_h02_takes_over_where_steps_do_not_repeat(kernels: Sequence[int]) -> None:
    data = document(stepping(*kernels))
    busy_us, tail_us = 5 * sum(kernels), 122
    assert claimed_ns(data, "RL-H02") == (1000 * len(kernels) - busy_us - tail_us - 1) * 1000
    assert "RL-H01" not in matched(data)
