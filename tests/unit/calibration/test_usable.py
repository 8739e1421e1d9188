"""When a figure is not usable: too wide to either side, too few samples, or processors that others had."""

from dataclasses import replace

import pytest

from redline.calibration.calibration_record import Calibration, Estimate, why_not
from redline.calibration.figures import machine_of
from redline.hardware.machine import WIDEST, Machine, too_wide, why_unusable
from tests.support.made_calibrations import QUIET, around, calibration, collectives, gpu_calibration, law, peak

OTHERS = replace(QUIET, waited_share=0.5)


def estimate(low: float, high: float, samples: int = 30) -> Estimate:
    return Estimate(value=100.0, low=low, high=high, samples=samples)


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        (75.0, 125.0, ""),
        (99.0, 126.0, "its interval reaches 26 % to one side, more than 25 %"),
        (74.0, 101.0, "its interval reaches 26 % to one side, more than 25 %"),
        (10.0, 900.0, "its interval reaches 800 % to one side, more than 25 %"),
    ],
)
def test_the_further_end_of_the_interval_decides(low: float, high: float, why: str) -> None:
    assert why_not(estimate(low, high), calibration()) == why
    assert too_wide(WIDEST) == too_wide(None) == ""


def test_few_samples_have_a_narrow_interval_by_chance() -> None:
    assert why_not(estimate(99, 101, samples=6), calibration()) == ""
    assert why_not(estimate(99, 101, samples=5), calibration()) == "it was timed 5 times, less than 6"
    assert why_not(estimate(99, 101, samples=5), calibration(), is_series=True) == ""


def test_a_narrow_interval_says_nothing_where_others_had_the_processors() -> None:
    """Eight busy loops slow every sample down alike: the figure is steady, and several times too low."""
    busy = calibration(conditions=OTHERS)
    assert why_not(estimate(99, 101), busy) == "50 % of the processor time that it asked for went to others"
    assert why_not(estimate(99, 101), calibration(conditions=replace(QUIET, waited_share=0.19))) == ""
    assert why_not(estimate(99, 101), calibration(conditions=replace(QUIET, waited_share=0.21))) != ""


def test_what_others_took_is_all_causes_together() -> None:
    both = replace(QUIET, waited_share=0.1, steal_share=0.1, throttled_share=0.1)
    assert both.taken_share == pytest.approx(1 - 0.9**3)
    unknown = replace(QUIET, waited_share=-1.0, other_share=0.3, steal_share=-1.0)
    assert unknown.taken_share == pytest.approx(0.3)  # the next best that the system says
    assert replace(unknown, waited_share=0.0).taken_share == 0.0  # others ran where we did not


def test_an_accelerator_has_a_clock_of_its_own() -> None:
    busy = replace(gpu_calibration(), conditions=OTHERS)
    assert why_not(estimate(99, 101), busy) == ""
    assert why_not(estimate(99, 101), busy, on_host=True) != ""


# --- the machine ------------------------------------------------------------------------------------------------------


def names(machine: Machine) -> set[str]:
    return set(machine.unusable)


def test_every_figure_of_a_busy_machine_is_marked() -> None:
    machine = machine_of(calibration(conditions=OTHERS))
    assert set(machine.figures) == {"memory_bytes"}
    assert {figure.unusable for figure in machine.unusable.values()} == {
        "50 % of the processor time that it asked for went to others"
    }


def wide(found: Calibration) -> Calibration:
    wider = replace(peak("fp32", 2e11), burst_flops_per_s=around(2e11, 0.3))
    return replace(found, peaks=(wider, peak("bf16", 1.5e12)))


def test_only_what_is_too_wide_is_marked_and_what_is_published_stays() -> None:
    assert names(machine_of(wide(calibration()))) == {"best_matmul_flops_per_s.fp32", "peak_flops_per_s.fp32"}
    machine = machine_of(wide(gpu_calibration()))
    assert names(machine) == {"best_matmul_flops_per_s.fp32"}
    published = machine.peak_flops_per_s("fp32")
    assert published is not None
    assert str(published.origin) == "catalogue"


def test_fits_that_predict_badly_are_marked_too() -> None:
    found = collectives()
    vague = replace(found, laws=tuple(replace(one, error_median=0.3) for one in found.laws))
    marked = names(machine_of(calibration(collectives=vague, laws=(replace(law("bf16", 2e12, 1e10), points=5),))))
    assert "collective_bytes_per_s.node.all_reduce" in marked
    assert not any("matmul" in name for name in marked)


def test_one_line_says_which_and_why() -> None:
    machine = machine_of(calibration(conditions=OTHERS, collectives=None))
    line = why_unusable(machine)
    assert line.startswith("measured figures are not used: memory_bytes_per_s, peak_flops_per_s.fp32, ")
    assert line.endswith(
        " more (memory_bytes_per_s: 50 % of the processor time that it asked for went to others); "
        "calibrate again on a quiet machine"
    )
    assert "(peak_flops_per_s.bf16: 50 %" in why_unusable(machine, ["peak_flops_per_s.bf16", "power_w"])
    assert why_unusable(machine, ["power_w"]) == why_unusable(machine_of(calibration())) == ""
