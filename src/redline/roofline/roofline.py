"""The roofline: the least time that a machine needs for a piece of work."""

from dataclasses import dataclass
from math import isnan, nan
from typing import Literal

from redline.hardware.machine import Machine
from redline.roofline.work import Work

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """Least times for the arithmetic and for the traffic of one piece of work."""

    math_ns: float  # nan where the machine's peak for that type is not known
    memory_ns: float

    @property
    def roof_ns(self) -> float:
        """No implementation is faster; nan where the arithmetic's time is not known."""
        return self.math_ns if isnan(self.math_ns) else max(self.math_ns, self.memory_ns)

    @property
    def regime(self) -> Literal["compute", "memory", "unknown"]:
        """Which of the two bounds the work."""
        if isnan(self.math_ns):
            return "unknown"
        return "compute" if self.math_ns > self.memory_ns else "memory"


def roof_of(work: Work, dtype: str, machine: Machine) -> Roof | None:
    """The roof for work that the hardware computes in `dtype`; None where the memory bandwidth is not known."""
    bandwidth = machine.memory_bytes_per_s
    if bandwidth is None:
        return None
    memory_ns = work.bytes / bandwidth.value * NS_PER_S
    if not work.flops:
        return Roof(math_ns=0.0, memory_ns=memory_ns)
    peak = machine.peak_flops_per_s(dtype) if dtype else None
    math_ns = nan if peak is None else work.flops / peak.value * NS_PER_S
    return Roof(math_ns=math_ns, memory_ns=memory_ns)
