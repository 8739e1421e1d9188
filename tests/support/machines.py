"""A product whose work is known, and machines that need a given time for it."""

from collections.abc import Mapping
from typing import Any

from redline.hardware.machine import Figure, Machine

PRODUCT_FLOPS, PRODUCT_BYTES = 2 * 64**3, 3 * 64 * 64 * 4  # of two [64, 64] in fp32
PRODUCT: Mapping[str, Any] = {
    "Input Dims": [[64, 64], [64, 64]],
    "Input type": ["float", "float"],
    "Input Strides": [[64, 1], [64, 1]],
    "Concrete Inputs": ["", ""],
}


def figure(value: float) -> Figure:
    return Figure(value=value, source="made up for a test", date="2026-08")


def machine_with(math_ns: float, memory_ns: float) -> Machine:
    """That needs these times for the arithmetic and for the bytes of the product."""
    figures = {
        "memory_bytes_per_s": figure(PRODUCT_BYTES / memory_ns * 1e9),
        "peak_flops_per_s.fp32": figure(PRODUCT_FLOPS / math_ns * 1e9),
    }
    return Machine(name="made up", figures=figures)
