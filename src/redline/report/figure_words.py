"""Names of the figures of a machine, for people."""

from collections.abc import Mapping

from redline.hardware.machine import (
    BEST_MATMUL,
    LATENCY,
    LAW_COMPUTE,
    LAW_FIXED,
    LAW_MEMORY,
    PEAK,
    RATE,
    SUSTAINED_MATMUL,
)
from redline.report.language import _, marked

LABELS: Mapping[str, str] = {
    PEAK: marked("peak"),
    BEST_MATMUL: marked("best matmul"),
    SUSTAINED_MATMUL: marked("sustained matmul"),
    LAW_COMPUTE: marked("law: compute roof"),
    LAW_MEMORY: marked("law: memory roof"),
    LAW_FIXED: marked("law: fixed time"),
    "memory_bytes": marked("memory"),
    "memory_bytes_per_s": marked("memory bandwidth"),
    "fabric_bytes_per_s": marked("fabric, per direction"),
    "pair_bytes_per_s": marked("one pair, per direction"),
    "fabric_devices": marked("devices in the fabric"),
    "nic_bytes_per_s": marked("network, per direction"),
    "pcie_bytes_per_s": marked("PCIe, per direction"),
    "multiprocessors": marked("multiprocessors"),
    "power_w": marked("power"),
    "launch_ns": marked("launch"),
    "dispatch_ns": marked("dispatch"),
    LATENCY: marked("latency"),
    RATE: marked("rate"),
}


def label(name: str) -> str:
    """peak_flops_per_s.bf16 -> peak bf16; the unit is in the value."""
    quantity, _dot, which = name.partition(".")
    return f"{label_of(quantity)} {which.replace('.', ', ')}".rstrip()


def label_of(quantity: str) -> str:
    return _(LABELS[quantity]) if quantity in LABELS else quantity
