"""Counts what a user's own nn.Module costs, without running it: built and traced on the meta device, shapes only."""

from __future__ import annotations

from redline.model.counted_module import CountedModule, Operator

__all__ = ["CountedModule", "Operator", "count_module"]


def count_module(source: str) -> CountedModule:
    """`source` is path.py:function. The function returns a module and its inputs: a tensor, a tuple or a dict of them.

    FLOPs are those of matmuls, convolutions and attention, as torch.utils.flop_counter has them: attention counts the
    full square of queries and keys, and is counted as the fused kernel that a GPU would run.
    """
    from redline.calibration.modules.load import build
    from redline.calibration.modules.trace import trace

    built = build(source)
    return trace(built)
