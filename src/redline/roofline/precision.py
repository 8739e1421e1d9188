"""In which type of number the hardware computes, from the names of kernels."""

import re

from redline.roofline.work import Work

# Evidence that a kernel multiplies 32-bit numbers as TF32. It says so (xf32 on AMD), or it names the tensor-core
# instruction s1688, which takes 32-bit data only as TF32. Memory-efficient attention in fp32 splits each number into
# TF32 parts on Ampere and newer: it can beat the fp32 peak, but not that of TF32.
_TF32 = re.compile(r"tf32|xf32|XF32|(?<![a-z0-9])s1688|fmha_cutlass[FB]_f32_\w*_sm(?:[89]\d|1\d\d)")


def arithmetic_dtype(work: Work, kernel_name: str) -> str:
    """The type whose peak bounds this work: that of its data, except for fp32 that the kernel computes as TF32."""
    if work.dtype != "fp32" or not work.flops:
        return work.dtype
    return "tf32" if _TF32.search(kernel_name) else "fp32"
