"""RL-ID01: a serving engine launches every kernel of a step on its own, and the device waits for the launches."""

import pytest

from tests.support.events import document, kernel, launch, region
from tests.support.rules.matching import claimed_ns, found, matched
from tests.support.rules.serving import DECODE, MIXED, PREFILL, serving


@pytest.mark.parametrize("label", [DECODE, PREFILL, MIXED])
def test_id01_claims_the_gaps_of_a_step_that_launches_each_kernel(label: str) -> None:
    data = document(serving(label, 50))
    # 150 us between two kernels and 2 before the first; what the device waited for after the last is not recorded.
    assert claimed_ns(data, "RL-ID01") == 4 * 150_000 + 2_000
    (evidence,) = found(data)["RL-ID01"].evidence
    assert evidence.values == {
        "engine_steps": 1,
        "bound_steps": 1,
        "kernels": 5,
        "busy_share": pytest.approx(250 / 997),  # 3 us of queue before the first kernel are nobody's
    }


def test_id01_is_silent_with_graphs_or_a_busy_device_or_in_training() -> None:
    assert "RL-ID01" not in matched(document(serving(DECODE, 50, graph=True)))
    assert "RL-ID01" not in matched(document(serving(DECODE, 145)))
    assert "RL-ID01" not in matched(document(serving("ProfilerStep#1", 50)))


def test_serving_engines_have_no_other_finding_about_launches() -> None:
    assert not {"RL-H01", "RL-H02"} & matched(document(serving(DECODE, 5))).keys()


def test_id01_does_not_count_queue_time_before_the_first_work_of_a_stream() -> None:
    """Work of the step before, which was not recorded, may have run: an engine launches ahead of its device."""
    events = [region(DECODE, 0, 100)]
    events += [launch(0, 1), kernel("index", 3, 4, correlation=1, stream=9)]
    events += [launch(10, 2), kernel("attention", 10_000, 80, correlation=2)]
    events += [launch(20, 3), kernel("gemm", 10_080, 80, correlation=3)]
    assert not {"RL-ID01", "RL-H01", "RL-H02"} & matched(document(events)).keys()
    (remark, *_) = found(document(events))["RL-S01"].evidence
    assert remark.values["busy_share"] == pytest.approx(164 / 171)  # idle for two launches, 2 and 5 us


def test_id01_says_that_stacks_inflate_it() -> None:
    data = document(serving(DECODE, 50), with_stack=1)
    assert "stacks" in found(data)["RL-ID01"].evidence[-1].message
