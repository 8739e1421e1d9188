"""Names of the figures of a machine, and why some are not used, for people."""

import re
from collections.abc import Mapping, Sequence

from redline.hardware.machine import (
    BEST_MATMUL,
    LATENCY,
    LAW_COMPUTE,
    LAW_FIXED,
    LAW_MEMORY,
    PEAK,
    RATE,
    SUSTAINED_MATMUL,
    Machine,
)
from redline.hardware.machine import why_unusable as unusable_line
from redline.report.language import _, marked, translate_rendered
from redline.report.text_parts import clipped

LABELS: Mapping[str, str] = {
    PEAK: marked("peak"),
    BEST_MATMUL: marked("best matmul"),
    SUSTAINED_MATMUL: marked("sustained matmul"),
    LAW_COMPUTE: marked("matmul model: compute roof"),
    LAW_MEMORY: marked("matmul model: memory roof"),
    LAW_FIXED: marked("matmul model: fixed time"),
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


# --- not used ---------------------------------------------------------------------------------------------------------

WHY_UNUSABLE: Sequence[str] = (
    marked("its interval reaches {reach} % to one side, more than {widest} %"),
    marked("it was timed {samples} times, less than {fewest}"),
    marked("{share} % of the processor time that it asked for went to others"),
)
"""Why a figure cannot be used, as `hardware` and `probes` say it."""
UNUSED = marked("measured figures are not used: {names} ({name}: {why}); calibrate again on a quiet machine")
_UNUSED = re.compile(
    r"measured figures are not used: (.*) \((\S+): (.*)\); calibrate again on a quiet machine", re.DOTALL
)


def why_unusable(reason: str) -> str:
    return clipped(translate_rendered(reason, WHY_UNUSABLE), 200)


def unused(line: str) -> str:
    """What `hardware.machine.why_unusable` said, in the language that is spoken now."""
    match = _UNUSED.fullmatch(line)
    if match is None:
        return clipped(line, 400)
    return clipped(_(UNUSED).format(names=match[1], name=match[2], why=why_unusable(match[3])), 400)


def unused_of(machine: Machine) -> str:
    """As a sentence; "" where all figures of the machine can be used."""
    line = unusable_line(machine)
    return _("In the profile, {what}.").format(what=unused(line)) if line else ""
