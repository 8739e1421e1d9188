"""What a calibration comes to: figures with their origin, and none that is hardly known."""

from dataclasses import replace
from pathlib import Path

import pytest

from redline.calibration.calibration_record import Calibration, Estimate, why_not
from redline.calibration.figures import machine_of, record_of
from redline.hardware.catalogue import find
from redline.hardware.machine import DTYPES, WIDEST, FigureSource, Machine, too_wide, why_unusable
from redline.verbs.calibrate import Calibrated, load_calibrated
from tests.support.made_calibrations import (
    NOISY,
    QUIET,
    around,
    bare_calibration,
    calibration,
    collectives,
    gpu_calibration,
    law,
    peak,
)


def test_of_a_cpu_the_best_that_was_measured_stands_in_for_the_peak_and_says_so() -> None:
    found = calibration()
    machine = machine_of(found)
    assert (machine.name, machine.base) == (found.subject.name, "")
    assert {figure.origin for figure in machine.figures.values()} == {FigureSource.CALIBRATED}
    assert {figure.date for figure in machine.figures.values()} == {found.date[:10]}
    for one in found.peaks:
        if one.dtype not in DTYPES:
            continue
        peak, best = machine.peak_flops_per_s(one.dtype), machine.best_matmul_flops_per_s(one.dtype)
        assert peak is not None
        assert best is not None
        assert peak.value == best.value == one.burst_flops_per_s.value
        assert peak.source.startswith("no peak is published; fastest of all matmuls: ")
        assert peak.spread == pytest.approx(one.burst_flops_per_s.reach, abs=1e-4)


def test_of_an_accelerator_the_published_peak_stays_and_measured_bandwidth_takes_its_place() -> None:
    found = gpu_calibration()
    base = record_of(found.subject)
    assert base == find("H100-SXM5-80GB")
    assert base is not None
    machine = machine_of(found)
    assert machine.base == "H100-SXM5-80GB"
    assert machine.peak_flops_per_s("bf16") == base.peak_flops_per_s("bf16")
    best, bandwidth, pcie = (
        machine.best_matmul_flops_per_s("bf16"),
        machine.memory_bytes_per_s,
        machine.figures["pcie_bytes_per_s"],
    )
    assert best is not None
    assert bandwidth is not None
    assert best.origin is bandwidth.origin is pcie.origin is FigureSource.CALIBRATED


def test_a_device_that_the_catalogue_does_not_have_has_no_record() -> None:
    assert record_of(replace(gpu_calibration().subject, name="NVIDIA Unheard-of 9000")) is None
    assert record_of(calibration().subject) is None


def test_the_constants_of_the_laws_are_figures() -> None:
    machine = machine_of(calibration(laws=(law("bf16", 2e12, 1e10), law("fp32-as-bf16", 1e12, 1e10))))
    assert machine.figures["matmul_compute_flops_per_s.bf16"].value == 2e12
    assert machine.figures["matmul_memory_bytes_per_s.bf16"].value == 1e10
    assert "off for those it had not seen" in machine.figures["matmul_fixed_ns.bf16"].source
    assert not any("fp32-as-bf16" in name for name in machine.figures)
    assert machine.figures["collective_latency_ns.node.all_reduce"].value > 0


def test_among_machines_the_levels_are_told_apart() -> None:
    one = collectives()
    several = replace(
        one, hosts=2, laws=tuple(replace(one.laws[0], group=group) for group in ("world", "node", "across"))
    )
    names = [name for name in machine_of(calibration(collectives=several)).figures if name.startswith("collective_")]
    assert {name.split(".")[1] for name in names} == {"node", "across"}


def test_where_every_machine_has_one_rank_the_world_is_across() -> None:
    one = collectives()
    spread_out = replace(one, hosts=one.world, laws=(replace(one.laws[0], group="world"),))
    names = [name for name in machine_of(calibration(collectives=spread_out)).figures if name.startswith("collective_")]
    assert {name.split(".")[1] for name in names} == {"across"}


def test_what_is_hardly_known_is_marked_and_noise_and_an_early_end_are_noted() -> None:
    vague = replace(law("bf16", 2e12, 1e10), fixed_ns=replace(around(1000.0), high=9000.0))
    noisy = replace(calibration().conditions, noisy=("steal", "beat"))
    machine = machine_of(calibration(laws=(vague,), conditions=noisy, partial="SIGINT", seconds=12.3))
    assert "matmul_fixed_ns.bf16" not in machine.figures
    assert machine.unusable["matmul_fixed_ns.bf16"].unusable.startswith("its interval reaches 800 % to one side")
    assert "matmul_compute_flops_per_s.bf16" in machine.figures
    assert machine.notes == (
        "Partial: SIGINT ended it after 12 s.",
        "The machine was noisy while it was measured, by: steal, beat.",
    )


@pytest.mark.parametrize("found", [calibration(), bare_calibration(), gpu_calibration(), calibration(conditions=NOISY)])
def test_a_profile_is_read_back_as_it_was_written(found: Calibration, tmp_path: Path) -> None:
    written = Calibrated(calibration=found, machine=machine_of(found))
    written.save(tmp_path / "machine.json")
    assert load_calibrated(tmp_path / "machine.json") == written


# When a figure is not usable: too wide to either side, too few samples, or processors that others had.

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
