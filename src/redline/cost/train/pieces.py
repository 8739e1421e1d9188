"""The pieces that a step is put together from: how long each takes alone, per layer, micro-batch or stage.

The closed forms of `step` and the simulated timeline of `simulate` both start from these, so that they can be held
against each other.
"""

from dataclasses import dataclass

from redline.cost.train.outcome import Column


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Seconds, in columns: one row per layout. What does not occur is 0."""

    # The pipeline.
    stages: Column
    chunks: Column
    """Pieces of layers per stage (interleaving)."""
    micro_batches: Column
    schedule: Column
    layers_per_stage: Column
    """Of the fullest stage."""

    # One layer and micro-batch: time of its kernels, and what the host needs to launch them. A layer takes the longer.
    forward_s: Column
    backward_s: Column
    """Both gradients, without recomputation."""
    weight_gradient_s: Column
    """The part of `backward_s` that nothing waits for: zero-bubble schedules move it."""
    recompute_s: Column
    host_forward_s: Column
    host_backward_s: Column
    # Traffic inside one layer and micro-batch that compute waits for.
    tensor_forward_s: Column
    tensor_backward_s: Column
    """With what recomputation repeats."""
    context_forward_s: Column
    context_backward_s: Column
    expert_forward_s: Column
    expert_backward_s: Column
    # Weights of one layer, gathered and scattered while others compute (ZeRO-3).
    gather_s: Column
    """Once before the forward, once before the backward pass of the layer."""
    scatter_s: Column

    # One micro-batch.
    head_forward_s: Column
    head_backward_s: Column
    """Logits and loss, on the last stage."""
    send_s: Column
    """Activations from one stage to the next; gradients take the same."""

    # Once per step, per stage.
    reduce_s: Column
    """Gradients over data-parallel copies; the last backward pass may hide it."""
    broadcast_s: Column
    """Updated weights to all copies (ZeRO-1 and 2)."""
    overlap: Column
    """Share of gather, scatter and reduce that may run while the device computes."""
    optimizer_s: Column
    offload_s: Column
