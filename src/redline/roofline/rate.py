"""Rates calls of operators: from the profiler's texts to work."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, UnknownWorkError, call_of
from redline.roofline.operators import (
    attention,
    convolution,
    copy,
    elementwise,
    index,
    matmul,
    norm,
    optimizer,
    reduction,
    resize,
    softmax,
    triton,
    vendor,
)
from redline.roofline.work import Work

RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **copy.RULES,
    **elementwise.RULES,
    **reduction.RULES,
    **norm.RULES,
    **softmax.RULES,
    **resize.RULES,
    **index.RULES,
    **optimizer.RULES,
    **vendor.RULES,
    **attention.RULES,
    **convolution.RULES,
    **matmul.RULES,
}


def work_of(
    name: str, shapes: str, dtypes: str, strides: str = "", values: str = "", *, kernel_name: str = ""
) -> Work | None:
    """The work of one call, from JSON lists as the profiler writes them. None: not known, and never guessed.

    The types of tensors in a list (aten::cat, aten::_foreach_*) are in none of these texts. They are known where
    `kernel_name`, a kernel that the call launched, states them. No other operator needs it.
    """
    rule = triton.rate if name.startswith(triton.PREFIX) else RULES.get(name)
    if rule is None:
        return None
    try:
        return rule(call_of(name, shapes, dtypes, strides, values, kernel_name))
    except UnknownWorkError:
        return None
