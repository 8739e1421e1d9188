"""Findings in words: units by the names of values, bounds, and a verdict for each kind of job."""

from dataclasses import replace

import pytest

from redline.analysis.job.first_screen import Outline, Remark, StepTimes, Unseen
from redline.findings.evidence import Evidence
from redline.findings.finding import Finding, Limit
from redline.report.diagnose.finding_messages import (
    bound_text,
    cause_text,
    phase_text,
    second_cause,
    sentence,
    times,
    verdict_sentence,
)
from tests.made_findings import FINDING, VERDICT

STEPS = StepTimes(
    steps=3,
    median_ns=10e6,
    shortest_ns=9_000_000,
    longest_ns=11_000_000,
    window_ns=30e6,
    in_steps_ns=30e6,
    trace_ns=30e6,
    uneven=False,
    device_window_ns=30e6,
    busy_ns=15e6,
    computing_ns=15e6,
)
OUTLINE = Outline(steps=STEPS, waterfall=(), largest=(), utilisation=None, late=None, unseen=())


def verdict(*findings: Finding, **changes: object) -> str:
    return verdict_sentence(replace(VERDICT, **changes), findings, OUTLINE)  # type: ignore[arg-type]


def test_the_end_of_a_values_name_says_its_unit() -> None:
    values: dict[str, float | str] = {
        "wait_ns": 1_234_567.8,
        "idle_share": 0.123,
        "sent_bytes": 1.5e6,
        "bus_bytes_per_s": 2e9,
        "kernels": 1234.0,
        "ratio": 2.345,
        "name": "a b",
    }
    message = "{wait_ns} {idle_share} {sent_bytes} {bus_bytes_per_s} {kernels:,} {ratio:.1f} {name}"
    assert sentence(Evidence(message, values)) == "1.235 ms 12.3 % 1.50 MB 2.00 GB/s 1,234 2.3 a b"


def test_names_with_braces_stay_names() -> None:
    assert sentence(Evidence("in {name}", {"name": "f{x}"})) == "in f{x}"


def test_a_bound_says_what_is_gained_alone_where_that_is_more() -> None:
    assert bound_text(FINDING) == "at most 40.0 % of the step, 1.67 x as fast"
    both = replace(FINDING, bound_ns=1e6)
    assert bound_text(both) == (
        "at most 10.0 % of the step beyond the other findings; on its own at most 40.0 % of the step, 1.67 x as fast"
    )
    little = replace(FINDING, bound_ns=4e4)
    assert bound_text(little).startswith("at most 0.4 % of the step beyond the other findings; on its own at most")
    nearly = replace(FINDING, bound_ns=3.98e6)
    assert bound_text(nearly) == "at most 39.8 % of the step, 1.67 x as fast"  # the share of all tables
    none = replace(FINDING, bound_ns=0.0)
    assert bound_text(none).startswith("nothing beyond the other findings; on its own at most 40.0 %")
    assert bound_text(replace(FINDING, bound_ns=0.0, alone_ns=0.0)) == ""


def test_the_factor_is_of_usual_steps() -> None:
    uneven = replace(FINDING, steady_share=0.2)
    assert bound_text(uneven) == "at most 40.0 % of the average step; a typical step 1.25 x as fast"


@pytest.mark.parametrize(("speedup", "said"), [(1.234, "1.23 x"), (12.34, "12.3 x"), (1e9, "more than 100 x")])
def test_factors(speedup: float, said: str) -> None:
    assert times(speedup) == said


def test_a_verdict_says_that_the_queue_before_the_recording_is_left_out() -> None:
    remark = Remark(what=Unseen.FIRST_QUEUE, ranks=1, time_ns=1000)
    said = verdict_sentence(VERDICT, [], replace(OUTLINE, unseen=(remark,)))
    assert said.endswith(" This leaves out queue time before the first recorded work.")
    assert "left out" not in verdict_sentence(VERDICT, [], OUTLINE)


def test_a_verdict_names_limit_cause_and_gain() -> None:
    assert verdict(FINDING) == (
        "Overhead-bound: 50.0 % of the step is idle or copying. The host cannot launch small "
        "kernels as fast as the device runs them. Fixing it makes a typical step at most 1.67 x as "
        "fast (RL-H01)."
    )


def test_the_first_finding_may_lie_beside_what_takes_most_time() -> None:
    text = verdict(FINDING, limit=Limit.COMPUTE)
    assert text.startswith(
        "The largest part of the step is compute (50.0 %), but the largest loss with a known cause is elsewhere."
    )
    exposed = replace(FINDING, accounts={"transfer": 4e6})
    assert verdict(exposed, limit=Limit.COMMUNICATION).startswith("Communication-bound: 50.0 % of the step")
    kernels = replace(FINDING, accounts={"compute": 4e6})
    assert verdict(kernels, limit=Limit.MEMORY).startswith("Memory-bound")


def test_a_second_cause_of_another_kind_is_named_where_it_is_worth_much() -> None:
    late = replace(FINDING, code="RL-N13", accounts={"peer wait": 3e6}, bound_ns=3e6)
    assert second_cause([FINDING, late]) == (
        "Also: A rank that comes late keeps all others waiting. Fixing that saves at most 30.0 % of the step (RL-N13)."
    )
    assert not second_cause([FINDING, replace(late, bound_ns=1e6)])
    assert not second_cause([FINDING, replace(FINDING, bound_ns=3e6)])


def test_a_healthy_job_hears_that_it_is_and_how_far_its_redline_is() -> None:
    well = {"limit": Limit.COMPUTE, "limit_share": 0.9, "idle_share": 0.02, "worthwhile": False, "healthy": True}
    assert verdict(**well) == (
        "Healthy: compute takes 90.0 % of the step, and nothing was found to fix. The redline "
        "(arithmetic at the machine's peak) is 20.0 % of the step."
    )
    small = replace(FINDING, bound_ns=0.3e6)
    assert verdict(small, math_share=None, **well) == (
        "Healthy: compute takes 90.0 % of the step, and no fix saves more than 3.0 %."
    )


def test_idling_without_a_known_cause_is_not_health() -> None:
    assert verdict(worthwhile=False) == "The device is idle 40.0 % of the step, and no rule recognises the cause."
    assert verdict(worthwhile=False, limit=Limit.COMMUNICATION).startswith("Exposed communication takes 50.0 %")
    small = replace(FINDING, bound_ns=0.3e6)
    assert verdict(small, worthwhile=False) == (
        "The device is idle 40.0 % of the step; the largest finding explains 3.0 %."
    )
    exposed = verdict(small, worthwhile=False, limit=Limit.COMMUNICATION)
    assert exposed.endswith("takes 50.0 % of the step; the largest finding explains 3.0 %.")


def test_serving_names_its_phases() -> None:
    assert verdict(FINDING, phases={"decode": 3}).startswith("All steps are decode steps. Overhead-bound")
    assert phase_text({"prefill": 1}) == "All steps are prefill steps."
    assert phase_text({"mixed": 1}) == "All steps mix prefill and decode."
    assert phase_text({"prefill": 2, "decode": 1000, "mixed": 1}) == (
        "Serving steps: 1,000 decode, 2 prefill, 1 of both."
    )


def test_nothing_is_judged_where_no_time_passed() -> None:
    nothing = replace(OUTLINE, steps=replace(STEPS, longest_ns=0))
    assert "nothing to diagnose" in verdict_sentence(VERDICT, (), nothing)


def test_a_cause_is_one_plain_sentence() -> None:
    assert cause_text("RL-H01") == "The host cannot launch small kernels as fast as the device runs them."
