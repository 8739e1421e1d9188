"""A machine gives the figures that it has, and None for all others."""

import pytest

from redline.hardware.catalogue import find
from redline.hardware.machine import DTYPES, FIGURE_UNITS, Figure, FigureSource, Machine, calibrated

NAMED = [name for name in FIGURE_UNITS if "." not in name]


def figure(value: float = 1.0) -> Figure:
    return Figure(value=value, source="s", date="2026-08")


@pytest.mark.parametrize("name", NAMED)
def test_a_figure_is_that_of_its_name(name: str) -> None:
    only = figure(3.0)
    assert getattr(Machine(name="m", figures={name: only}), name) is only
    assert getattr(Machine(name="m"), name) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_peak_is_never_that_of_another_dtype(dtype: str) -> None:
    others = {f"peak_flops_per_s.{other}": figure() for other in DTYPES if other != dtype}
    others |= {f"best_matmul_flops_per_s.{other}": figure() for other in DTYPES if other != dtype}
    machine = Machine(name="m", figures={**others, "memory_bytes_per_s": figure()})
    assert machine.peak_flops_per_s(dtype) is None
    assert machine.best_matmul_flops_per_s(dtype) is None
    assert machine.ridge_flops_per_byte(dtype) is None


def test_a_v100_has_no_bf16() -> None:
    v100 = find("V100-SXM2-32GB")
    assert v100.peak_flops_per_s("bf16") is None
    assert v100.peak_flops_per_s("fp16") == Figure(
        value=125e12,
        source="composer speed_monitor.py; llm-analysis v100-sxm-32gb; ml-engineering NVLink table",
        date="2026-08",
    )


def test_the_ridge_is_peak_over_bandwidth() -> None:
    assert find("H20").ridge_flops_per_byte("bf16") == 37
    assert find("H100-SXM5-80GB").ridge_flops_per_byte("bf16") == pytest.approx(295.2, abs=0.1)
    assert Machine(name="m", figures={"peak_flops_per_s.bf16": figure()}).ridge_flops_per_byte("bf16") is None


def test_misspelt_names_are_bugs() -> None:
    with pytest.raises(ValueError, match="there is no dtype 'float16'; there are: fp64, fp32"):
        Machine(name="m").peak_flops_per_s("float16")
    with pytest.raises(ValueError, match="m: there is no figure 'memory'"):
        Machine(name="m", figures={"memory": figure()})


def test_calibrated_figures_replace_published_ones_and_say_so() -> None:
    base = find("H100-SXM5-80GB")
    ours = calibrated(base, "ours", {"memory_bytes_per_s": figure(3e12), "launch_ns": figure(2000)}, notes=("n",))
    assert (ours.name, ours.base, ours.vendor, ours.notes) == ("ours", base.name, "NVIDIA", (*base.notes, "n"))
    origins = {name for name, found in ours.figures.items() if found.origin is FigureSource.CALIBRATED}
    assert origins == {"memory_bytes_per_s", "launch_ns"}
    assert ours.peak_flops_per_s("bf16") is base.peak_flops_per_s("bf16")
    again = calibrated(ours, "again", {})
    assert again.base == base.name
    assert base.memory_bytes_per_s is not None
    assert base.memory_bytes_per_s.value == 3.35e12
