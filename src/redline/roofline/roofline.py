"""The roofline: the work of an operator's call, and the least time that a machine needs for it."""

import re
from collections.abc import Callable, Mapping
from math import isnan, nan
from typing import Literal

from redline.hardware.machine import Machine
from redline.roofline.arguments import OperatorCall, UnknownWorkError, call_of
from redline.roofline.operators.attention import ATTENTION_RULES
from redline.roofline.operators.convolution import CONVOLUTION_RULES, RESIZE_RULES
from redline.roofline.operators.copy import COPY_RULES, INDEX_RULES, OPTIMIZER_RULES
from redline.roofline.operators.elementwise import ELEMENTWISE_RULES
from redline.roofline.operators.matmul import MATMUL_RULES
from redline.roofline.operators.reduction import NORM_RULES, REDUCTION_RULES, SOFTMAX_RULES
from redline.roofline.operators.vendor import TRITON_PREFIX, VENDOR_RULES, rate_triton
from redline.roofline.sizes import Work
from redline.values import dataclass

RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **COPY_RULES,
    **ELEMENTWISE_RULES,
    **REDUCTION_RULES,
    **NORM_RULES,
    **SOFTMAX_RULES,
    **RESIZE_RULES,
    **INDEX_RULES,
    **OPTIMIZER_RULES,
    **VENDOR_RULES,
    **ATTENTION_RULES,
    **CONVOLUTION_RULES,
    **MATMUL_RULES,
}


def work_of(
    name: str, shapes: str, dtypes: str, strides: str = "", values: str = "", *, kernel_name: str = ""
) -> Work | None:
    """The work of one call, from JSON lists as the profiler writes them. None: not known, and never guessed.

    The types of tensors in a list (aten::cat, aten::_foreach_*) are in none of these texts. They are known where
    `kernel_name`, a kernel that the call launched, states them. No other operator needs it.
    """
    rule = rate_triton if name.startswith(TRITON_PREFIX) else RULES.get(name)
    if rule is None:
        return None
    try:
        return rule(call_of(name, shapes, dtypes, strides, values, kernel_name))
    except UnknownWorkError:
        return None


# Evidence that a kernel multiplies 32-bit numbers as TF32. It says so (xf32 on AMD), or it names the tensor-core
# instruction s1688, which takes 32-bit data only as TF32. Memory-efficient attention in fp32 splits each number into
# TF32 parts on Ampere and newer: it can beat the fp32 peak, but not that of TF32.
_TF32 = re.compile(r"tf32|xf32|XF32|(?<![a-z0-9])s1688|fmha_cutlass[FB]_f32_\w*_sm(?:[89]\d|1\d\d)")


def arithmetic_dtype(work: Work, kernel_name: str) -> str:
    """The type whose peak bounds this work: that of its data, except for fp32 that the kernel computes as TF32."""
    if work.dtype != "fp32" or not work.flops:
        return work.dtype
    return "tf32" if _TF32.search(kernel_name) else "fp32"


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
