"""A user's own nn.Module as counts of what one forward and one backward pass do."""

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
    """Of all calls together, as the next two."""
    bytes: int
    """Read and written, each tensor once per call. Views move nothing."""
    parameter_bytes: int = 0
    """The part of them that is parameters, buffers and their gradients: the same whatever the batch."""
    causal: bool = False
    """Attention in which a token meets only those before it: half of its FLOPs are never done."""


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

    samples: int = 1
    """In the example inputs: the first size of the first tensor."""
    blocks: int = 1
    """Submodules of the kind that repeats and holds the most parameters: what FSDP wraps and recomputation repeats."""
    block_inputs_bytes: int = 0
    """What goes into all of them: kept where everything else is computed again."""
    blocks_kept_bytes: int = 0
    """Of `kept_bytes`, what all blocks keep together."""
    largest_block_bytes: int = 0
    """What the block keeps that keeps the most."""

    @property
    def number_bytes(self) -> float:
        """Of a parameter, as the module was built: 4 unless its user says otherwise."""
        return self.parameter_bytes / self.parameters if self.parameters else 4.0
