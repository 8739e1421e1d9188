"""How long kernels take: max(flops / compute, bytes / memory) + a fixed time. And the constants of machines for it."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from redline.errors import UsageError
from redline.hardware.machine import BEST_MATMUL, LAW_COMPUTE, LAW_FIXED, LAW_MEMORY, PEAK, Machine, why_unusable
from redline.model.model import Number

# --- families of GPUs -------------------------------------------------------------------------------------------------
# Nearest is the architecture ("Hopper sm90"): H100, H800, H200 and GH200 are the same die with other memory and
# links. Whatever is measured on several of them is pooled, so that two machines that differ in one figure differ in
# that alone. Next is the generation ("Blackwell", of sm100, sm103 and sm120).


Value = TypeVar("Value")


def kin(machine: Machine) -> tuple[str, ...]:
    """The nearest first."""
    architecture = machine.architecture
    return tuple(dict.fromkeys(name for name in (architecture, generation(architecture)) if name))


def generation(architecture: str) -> str:
    return architecture.split(" ", maxsplit=1)[0]


def of_kin(known: Mapping[str, Value], machine: Machine) -> Value | None:
    """The value of the nearest kin that has one."""
    return next((known[name] for name in kin(machine) if name in known), None)


def pooled(rows: Sequence[tuple[str, tuple[float, ...]]]) -> dict[str, tuple[float, ...]]:
    """The mean of rows by architecture, and by generation."""
    named: dict[str, list[tuple[float, ...]]] = {}
    for architecture, values in rows:
        for name in dict.fromkeys((architecture, generation(architecture))):
            named.setdefault(name, []).append(values)
    return {
        name: tuple(sum(column) / len(column) for column in zip(*same, strict=True)) for name, same in named.items()
    }


# Where no table says what kernels of a machine reach. Of the peak: the median of all machines that have one.
COMPUTE_SHARE, MEMORY_SHARE, FIXED_S = 0.75, 0.80, 4e-6
ATTENTION_SHARE, ATTENTION_HALF = 0.75, 1200.0
# Matmuls of the largest shapes reach what was measured as the best; those of a step reach somewhat less.
OF_BEST_MATMUL = 0.95
# Architectures of the catalogue, by the name that the tables of kernels use.
_ARCHITECTURES = {
    "a100_sxm": "Ampere sm80",
    "h100_sxm": "Hopper sm90",
    "h200_sxm": "Hopper sm90",
    "b200_sxm": "Blackwell sm100",
    "b300_sxm": "Blackwell Ultra sm103",
    "gb200": "Blackwell sm100",
    "gb300": "Blackwell Ultra sm103",
    "l40s": "Ada sm89",
    "rtx_pro_6000_server": "Blackwell sm120",
}
_TABLE_DTYPES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8"}


@dataclass(frozen=True, kw_only=True)
class KernelLaw:
    """The constants of one machine and number format."""

    compute_flops_per_s: float
    memory_bytes_per_s: float
    fixed_s: float
    peak_flops_per_s: float


@dataclass(frozen=True, kw_only=True)
class AttentionLaw:
    """Fused attention over s tokens reaches most_flops_per_s * s / (s + half)."""

    most_flops_per_s: float
    half: float


def kernel_s(flops: Number, moved_bytes: Number, compute: Number, memory: Number, fixed_s: Number) -> Number:
    """One kernel. What it does not do at all takes no time, and no fixed one either."""
    work: NDArray[np.float64] = np.maximum(flops / compute, moved_bytes / memory)
    return work + fixed_s * (work > 0)


def kernel_law(machine: Machine, dtype: str) -> KernelLaw:
    """From the calibrated profile where it has these constants, else from tables of kernels measured on its kin, else
    from the best matmul that anybody measured, else from the published peak.
    """
    peak = _needed(machine, f"{PEAK}.{dtype}", dtype)
    bandwidth = _needed(machine, "memory_bytes_per_s", dtype)
    shares = of_kin(_matmul_table(_TABLE_DTYPES.get(dtype, "")), machine)
    best = machine.figures.get(f"{BEST_MATMUL}.{dtype}")
    usual = OF_BEST_MATMUL * best.value if best else COMPUTE_SHARE * peak
    compute, memory, fixed_s = (
        (shares[0] * peak, shares[1] * bandwidth, shares[2]) if shares else (usual, MEMORY_SHARE * bandwidth, FIXED_S)
    )
    return KernelLaw(
        compute_flops_per_s=min(machine.value(f"{LAW_COMPUTE}.{dtype}", compute), peak),
        memory_bytes_per_s=machine.value(f"{LAW_MEMORY}.{dtype}", memory),
        fixed_s=machine.value(f"{LAW_FIXED}.{dtype}", fixed_s * 1e9) / 1e9,
        peak_flops_per_s=peak,
    )


def half_format(machine: Machine) -> str:
    """The format of 16 bits that a machine computes in: bf16, or fp16 where it is older than that."""
    return "bf16" if f"{PEAK}.bf16" in machine.figures else "fp16"


def attention_law(machine: Machine, dtype: str = "") -> AttentionLaw:
    """The law of 16 bits, where attention stays when matmuls compute in 8; of another format where one is given."""
    dtype = dtype or half_format(machine)
    peak = _needed(machine, f"{PEAK}.{dtype}", dtype)
    share, half = of_kin(_attention_table(), machine) or (ATTENTION_SHARE, ATTENTION_HALF)
    # A machine whose matmuls fall far short of its peak has the same trouble in attention.
    law = kernel_law(machine, dtype)
    return AttentionLaw(most_flops_per_s=min(share * peak, 1.2 * law.compute_flops_per_s), half=half)


def _needed(machine: Machine, name: str, dtype: str) -> float:
    figure = machine.figures.get(name)
    if figure is None:
        hint = f"choose another format, or a machine that has it: `redline hardware {machine.name}` shows what is known"
        raise UsageError(
            f"{machine.name} has no figure {name}, so steps in {dtype} cannot be planned\n"
            f"{why_unusable(machine, [name]) or hint}"
        )
    return figure.value


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("redline.plan.train") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def _matmul_table(dtype: str) -> dict[str, tuple[float, ...]]:
    rows = (row for row in _rows("gemm_model_fits.csv") if row["dtype"] == dtype)
    return pooled(
        [
            (_ARCHITECTURES[row["gpu"]], (float(row["B_ec"]), float(row["B_em"]), float(row["B_t0_us"]) * 1e-6))
            for row in rows
        ]
    )


@cache
def _attention_table() -> dict[str, tuple[float, ...]]:
    """By kin, the most and the half of `most * s / (s + half)`: a line in 1 / share against 1 / s."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in _rows("attention_efficiency.csv"):
        if row["kind"].startswith("prefill"):
            points.setdefault(row["gpu"], []).append((float(row["size"]), float(row["median_frac_of_peak"])))
    return pooled([(_ARCHITECTURES[gpu], _most_and_half(np.array(of_gpu))) for gpu, of_gpu in points.items()])


def _most_and_half(points: NDArray[np.float64]) -> tuple[float, float]:
    slope, offset = np.polyfit(1 / points[:, 0], 1 / points[:, 1], 1)
    return float(1 / offset), float(slope / offset)
