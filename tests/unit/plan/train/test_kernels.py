"""The three-constant law of kernels, and where its constants come from."""

import pytest

from redline.errors import UsageError
from redline.hardware.catalogue import find, machines
from redline.hardware.machine import Figure, calibrated
from redline.plan.train.kernels import attention_law, half_format, kernel_law, kernel_s


def test_a_kernel_takes_the_longer_of_its_roofs_and_a_fixed_time() -> None:
    assert kernel_s(10.0, 1.0, 1.0, 1.0, 0.5) == 10.5
    assert kernel_s(1.0, 10.0, 1.0, 1.0, 0.5) == 10.5
    assert kernel_s(0.0, 0.0, 1.0, 1.0, 0.5) == 0.0


def test_tables_of_measured_kernels_come_before_the_peak() -> None:
    law = kernel_law(find("H100-SXM5-80GB"), "bf16")
    assert law.compute_flops_per_s == pytest.approx(0.85 * law.peak_flops_per_s)
    assert law.memory_bytes_per_s == pytest.approx(0.9 * 3.35e12)
    assert law.fixed_s == pytest.approx(4.5e-6)  # the mean of H100 and H200, which are the same die


def test_a_machine_without_a_table_has_its_best_matmul() -> None:
    machine = find("MI300X")
    best = machine.best_matmul_flops_per_s("bf16")
    assert best is not None
    assert kernel_law(machine, "bf16").compute_flops_per_s == pytest.approx(0.95 * best.value)


def test_a_profile_comes_before_all() -> None:
    figures = {
        "matmul_compute_flops_per_s.bf16": Figure(value=5e14, source="here", date="2026-08"),
        "matmul_memory_bytes_per_s.bf16": Figure(value=2e12, source="here", date="2026-08"),
        "matmul_fixed_ns.bf16": Figure(value=7000, source="here", date="2026-08"),
    }
    law = kernel_law(calibrated(find("H100-SXM5-80GB"), "ours", figures), "bf16")
    assert (law.compute_flops_per_s, law.memory_bytes_per_s) == (5e14, 2e12)
    assert law.fixed_s == pytest.approx(7e-6)


@pytest.mark.parametrize("machine", machines(), ids=lambda machine: machine.name)
def test_nothing_is_faster_than_the_peak(machine) -> None:  # type: ignore[no-untyped-def]
    dtype = half_format(machine)
    if machine.peak_flops_per_s(dtype) is None:
        pytest.skip("no peak is published")
    law, attention = kernel_law(machine, dtype), attention_law(machine)
    assert 0 < law.compute_flops_per_s <= law.peak_flops_per_s
    assert 0 < attention.most_flops_per_s <= law.peak_flops_per_s


def test_a_format_that_a_machine_lacks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"A100-SXM4-80GB has no figure peak_flops_per_s.fp8"):
        kernel_law(find("A100-SXM4-80GB"), "fp8")
