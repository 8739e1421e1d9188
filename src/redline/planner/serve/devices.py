"""What serving needs to know of a machine, from its record or its calibrated profile."""

from redline.errors import UsageError
from redline.hardware.machine import Machine, why_unusable
from redline.planner.serve.serving_rates import AcceleratorPeaks

_NEEDED = ("peak_flops_per_s.bf16", "peak_flops_per_s.fp16", "memory_bytes_per_s", "memory_bytes")


def device_of(machine: Machine) -> AcceleratorPeaks:
    """A format that the machine has no peak for is computed in the next wider one."""
    bf16 = machine.value("peak_flops_per_s.bf16") or machine.value("peak_flops_per_s.fp16")
    bandwidth, size = machine.value("memory_bytes_per_s"), machine.value("memory_bytes")
    if not bf16 or not bandwidth or not size:
        hint = f"choose a machine that has them: `redline hardware {machine.name}` shows what is known"
        raise UsageError(
            f"{machine.name} has no peak of 16 bits, memory bandwidth or memory size, so serving cannot be planned\n"
            f"{why_unusable(machine, _NEEDED) or hint}"
        )
    fp8 = machine.value("peak_flops_per_s.fp8") or bf16
    return AcceleratorPeaks(
        peak_bf16=bf16,
        peak_fp8=fp8,
        peak_fp4=machine.value("peak_flops_per_s.fp4") or fp8,
        memory_bytes_per_s=bandwidth,
        memory_bytes=size,
        link_bytes_per_s=machine.value("fabric_bytes_per_s") or machine.value("pcie_bytes_per_s") or 25e9,
    )
