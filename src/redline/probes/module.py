"""Counts what a user's own nn.Module costs, without running it: built and traced on the meta device, shapes only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Calls of one operator with the same shapes, in one direction."""

    name: str
    """As in aten: mm, convolution, native_layer_norm."""
    backward: bool
    shapes: tuple[tuple[int, ...], ...]
    """Of the tensors that go in."""
    calls: int
    flops: int
    """Of all calls together, as the next."""
    bytes: int
    """Read and written, each tensor once per call. Views move nothing."""


@dataclass(frozen=True, kw_only=True)
class CountedModule:
    """One forward and one backward pass on the example inputs."""

    name: str
    parameters: int
    trained_parameters: int
    parameter_bytes: int
    forward_flops: int
    backward_flops: int
    kept_bytes: int
    """What the forward pass keeps for the backward pass, beside parameters and buffers."""
    operators: tuple[Operator, ...]
    """In the order in which they first ran."""


def count_module(source: str) -> CountedModule:
    """`source` is path.py:function. The function returns a module and its inputs: a tensor, a tuple or a dict of them.

    FLOPs are those of matmuls, convolutions and attention, as torch.utils.flop_counter has them: attention counts the
    full square of queries and keys, and is counted as the fused kernel that a GPU would run.
    """
    from redline.probes.modules.load import build
    from redline.probes.modules.trace import trace

    built = build(source)
    return trace(built)
