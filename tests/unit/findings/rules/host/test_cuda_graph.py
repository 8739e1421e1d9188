"""RL-H01: the host launches small kernels more slowly than the device runs them, the same ones every step."""

from collections.abc import Sequence

import pytest

from tests.support.events import document
from tests.support.rules.host import small_kernels, stepping
from tests.support.rules.matching import claimed_ns, matched, step


def test_h01_claims_all_gaps_where_steps_repeat() -> None:
    data = document(stepping(30, 30, 30))
    # not: 1 us before the first kernel, in which the device may have been busy, and 122 us after the last
    assert claimed_ns(data, "RL-H01") == 3 * (1000 - 150) * 1000 - 1_000 - 122_000
    assert "RL-H02" not in matched(data)


@pytest.mark.parametrize("kernels", [(19,), (19, 19, 19)])
def test_h01_h02_leave_a_handful_of_kernels_alone(kernels: Sequence[int]) -> None:
    assert not {"RL-H01", "RL-H02"} & set(matched(document(stepping(*kernels))))


def test_h01_leaves_steps_alone_that_differ_by_a_few_kernels() -> None:
    seen = matched(document(stepping(30, 30, 28)))
    assert "RL-H02" in seen
    assert "RL-H01" not in seen


def test_h01_sees_launches_beside_long_pauses_of_the_host_but_does_not_claim_these() -> None:
    """In each step 15 kernels, a pause of 6 ms, 15 kernels."""
    events = [step(number, 10_000 * number, 10_000) for number in range(3)]
    for number in range(3):
        events += small_kernels(15, 10_000 * number, 100 * number + 1)
        events += small_kernels(15, 10_000 * number + 6_500, 100 * number + 50)
    data = document(events)
    assert "RL-H01" in matched(data)
    assert claimed_ns(data, "RL-H01") < 3 * 4_000_000


def test_h01_counts_kernels_in_the_step_that_launched_them() -> None:
    """The device lags: the last kernels of each step run in the next one, but every step launches as many."""
    late = [event if event["name"] != "add" else {**event, "ts": event["ts"] + 300} for event in stepping(30, 30, 30)]
    assert "RL-H01" in matched(document(late))
