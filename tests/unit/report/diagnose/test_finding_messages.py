"""Findings in words: units by the names of values, bounds, and a verdict for each kind of job."""

from dataclasses import replace

import pytest

from redline.findings.evidence import Bearing, Evidence
from redline.findings.finding import Finding, Limit
from redline.ledger.accounts import Account
from redline.ledger.job.first_screen import Outline, Remark, StepTimes, Unseen, WaterfallBar
from redline.report.diagnose.finding_messages import (
    bound_text,
    cause_text,
    phase_text,
    second_cause,
    sentence,
    times,
    verdict_sentence,
)
from tests.support.made_findings import FINDING, VERDICT

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


def test_a_bound_is_one_share_and_says_where_others_have_part_of_it() -> None:
    assert bound_text(FINDING) == "at most 40.0 % of the step, 1.67 x as fast"
    alone = "at most 40.0 % of the step, 1.67 x as fast"
    assert bound_text(replace(FINDING, bound_ns=1e6)) == f"{alone}, part of it in other findings too"
    assert bound_text(replace(FINDING, bound_ns=3.98e6)) == alone
    assert bound_text(replace(FINDING, bound_ns=0.0)) == f"{alone}, all of it in other findings too"
    assert bound_text(replace(FINDING, bound_ns=0.0, alone_ns=0.0)) == ""


def test_the_factor_is_of_usual_steps() -> None:
    uneven = replace(FINDING, steady_share=0.2)
    assert bound_text(uneven) == "at most 40.0 % of the average step; a typical step 1.25 x as fast"
    seldom = replace(FINDING, steady_share=0.01)
    in_long_steps = "at most 40.0 % of the average step, mostly in its longest steps: a typical one gets 1.01 x as fast"
    assert bound_text(seldom) == in_long_steps
    assert "mostly in the longest steps: fixing it makes a typical one at most 1.01 x" in verdict(seldom)


def test_no_finding_claims_to_know_more_than_ten_times_as_fast() -> None:
    assert bound_text(replace(FINDING, steady_share=0.99, alone_ns=9.9e6, bound_ns=9.9e6)) == (
        "at most 99.0 % of the step, more than 10 x as fast"
    )


@pytest.mark.parametrize(("speedup", "said"), [(1.234, "1.23 x"), (12.34, "12.3 x"), (1e9, "more than 100 x")])
def test_factors(speedup: float, said: str) -> None:
    assert times(speedup) == said


def test_a_verdict_says_that_the_queue_before_the_recording_is_left_out() -> None:
    assert verdict(FINDING, unjudged_share=0.978).startswith(
        "97.8 % of the step is before the first recorded device work"
    )
    assert "left out" not in verdict(FINDING)


def test_a_verdict_names_limit_cause_and_gain() -> None:
    assert verdict(FINDING) == (
        "Overhead-bound: up to 40.0 % of the step is lost. The host cannot launch small kernels as fast as the device "
        "runs them. Fixing it makes a typical step at most 1.67 x as fast (RL-H01)."
    )


def test_the_first_finding_may_lie_beside_what_takes_most_time() -> None:
    text = verdict(FINDING, limit=Limit.COMPUTE)
    assert text.startswith("Up to 40.0 % of the step is lost. The host cannot launch")
    exposed = replace(FINDING, accounts={"transfer": 4e6})
    assert verdict(exposed, limit=Limit.COMMUNICATION).startswith("Communication-bound: 50.0 % of the step")
    kernels = replace(FINDING, accounts={"compute": 4e6})
    assert verdict(kernels, limit=Limit.MEMORY).startswith("Memory-bound")


def test_a_verdict_names_function_and_line() -> None:
    site = Evidence("Most of it comes from {site}.", {"site": "main (/a/b/c/train.py:31)"})
    assert verdict(replace(FINDING, evidence=(site,)), limit=Limit.COMPUTE).startswith(
        "Up to 40.0 % of the step is lost, most of it in main (c/train.py:31). The host cannot"
    )
    assert verdict(replace(FINDING, code="RL-H25", evidence=(site,)), first="RL-H25", limit=Limit.COMPUTE).startswith(
        "Up to 40.0 % of the step is Python between steps, most of it in main (c/train.py:31). The loop does"
    )


def test_a_second_cause_of_another_kind_is_named_where_it_is_worth_much() -> None:
    late = replace(FINDING, code="RL-N13", accounts={"peer wait": 3e6}, bound_ns=3e6)
    assert second_cause(VERDICT, [FINDING, late]) == (
        "Also: A rank that comes late keeps all others waiting. Fixing that saves at most 40.0 % of the step (RL-N13)."
    )
    assert not second_cause(VERDICT, [FINDING, replace(late, bound_ns=1e6)])
    assert not second_cause(VERDICT, [FINDING, replace(FINDING, bound_ns=3e6)])


WELL = {
    "limit": Limit.COMPUTE,
    "kernel_share": 0.95,
    "judged_idle_share": 0.02,
    "copy_share": 0.01,
    "exposed_share": 0.02,
    "roof_share": 0.7,
    "worthwhile": False,
}


def test_a_healthy_job_hears_that_it_is_and_how_far_its_redline_is() -> None:
    assert verdict(**WELL, healthy=True) == (
        "Healthy: compute takes 95.0 % of the step and reaches 70.0 % of its roof (90.0 % of it rated), and nothing "
        "was found to fix. The redline (arithmetic at the machine's peak) is 20.0 % of the step."
    )
    small = replace(FINDING, bound_ns=0.3e6, alone_ns=0.3e6)
    assert verdict(small, math_share=None, healthy=True, **WELL).endswith(", and no fix saves more than 3.0 %.")


def test_what_is_not_proven_to_be_well_is_told_by_what_is_known_and_what_is_not() -> None:
    shapeless = Remark(what=Unseen.UNKNOWN_WORK, detail="no shapes recorded")
    unrated = replace(VERDICT, **{**WELL, "rated_share": 0.0, "roof_share": None})  # type: ignore[arg-type]
    assert verdict_sentence(unrated, (), replace(OUTLINE, unseen=(shapeless,))) == (
        "Little time is lost outside kernels (5.0 % of the step), and nothing was found to fix. How efficient the "
        "kernels are is unknown: no shapes were recorded."
    )
    no_peak, no_device = Remark(what=Unseen.NO_PEAK), Remark(what=Unseen.NO_DEVICE)
    assert verdict_sentence(unrated, (), replace(OUTLINE, unseen=(no_peak, no_device))).endswith(
        "How efficient the operators are is unknown: no peaks are known for this device."
    )
    bar = WaterfallBar(account=Account.KERNEL_LOSS, time_ns=6e6, before_ns=0.0, share=0.6)
    slow = replace(VERDICT, **{**WELL, "roof_share": 0.35})  # type: ignore[arg-type]
    assert verdict_sentence(slow, (), replace(OUTLINE, waterfall=(bar,))).endswith(
        "But kernels reach only 35.0 % of their roof: 60.0 % of the step is kernel loss."
    )


def test_a_window_without_steps_is_not_called_a_step() -> None:
    unmarked = replace(OUTLINE, unseen=(Remark(what=Unseen.NO_STEPS),))
    idle = replace(FINDING, of_window=True)
    texts = [
        verdict_sentence(VERDICT, [idle], unmarked),
        verdict_sentence(replace(VERDICT, **WELL), [], unmarked),  # type: ignore[arg-type]
        bound_text(idle),
        bound_text(replace(idle, bound_ns=1e6)),
    ]
    assert all("window" in text and "step " not in text for text in texts)
    assert "No steps were recognised" in texts[1]


def test_idling_without_a_known_cause_is_not_health() -> None:
    lost = {"worthwhile": False, "roof_share": 0.9}
    assert verdict(**lost) == (
        "60.0 % of the step is lost outside kernels (idle 40.0 %, exposed communication 10.0 %, copies 10.0 %), and no "
        "rule recognises the cause."
    )
    small = replace(FINDING, bound_ns=0.3e6, alone_ns=0.3e6)
    assert verdict(small, **lost).endswith("; the largest finding explains 3.0 %.")


def test_no_verdict_rests_on_a_finding_that_is_to_be_ignored_here() -> None:
    once = Evidence("Only one step.", bearing=Bearing.VOIDS)
    void = replace(FINDING, code="RL-N13", evidence=(once,), accounts={"peer wait": 4e6})
    assert "RL-N13" not in verdict(FINDING, void) + second_cause(VERDICT, [FINDING, void])
    alone = verdict(void, worthwhile=False, first="", roof_share=0.9)
    assert "no rule recognises the cause" not in alone
    assert alone.endswith(" These traces alone are no reason to act on it (RL-N13). Only one step.")


def test_a_verdict_says_what_weakens_its_claim() -> None:
    weak = replace(FINDING, evidence=(*FINDING.evidence, Evidence("Stacks inflate it.", bearing=Bearing.WEAKENS)))
    assert verdict(weak).endswith("(RL-H01). Stacks inflate it.")


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
