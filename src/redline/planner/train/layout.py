"""How a job is laid out over its devices, as numbers or columns of numbers: one row per layout."""

from dataclasses import dataclass

from redline.model.model import Number
from redline.planner.train.training_choices import Execution, PipelineSchedule, Recompute


@dataclass(frozen=True, kw_only=True)
class Layout:
    """dp * tp * pp * cp devices; experts are spread over `ep` of the dp * cp ones."""

    dp: Number = 1
    tp: Number = 1
    pp: Number = 1
    cp: Number = 1
    ep: Number = 1
    expert_tp: Number = 0
    """Tensor parallel size inside experts; 0: the same as tp."""
    sequence_parallel: Number = 0
    """1: norms and residuals are split over the tp devices; gather and scatter in the place of all-reduce."""
    zero: Number = 0
    """0: plain data parallel, 1: optimizer states split, 2: and gradients, 3: and weights (FSDP)."""
    shard: Number = 0
    """Devices that ZeRO splits over; 0: all of dp * cp. Less is HSDP: copies of the split model."""
    chunks: Number = 1
    """Pieces of layers per pipeline stage: 1, or the interleaving (virtual pipeline)."""
    schedule: Number = PipelineSchedule.ONE_F_ONE_B
    micro_batch: Number = 1
    """Sequences per device and micro-batch."""
    recompute: Number = Recompute.NONE
    offload: Number = 0
    """Share of optimizer states that live in host memory."""
    flash: Number = 1
    """1: fused attention, which never writes the scores to memory."""
    imbalance: Number = 1
    """Tokens of the busiest device's experts over those of the average one. Measured runs force it to 1."""
    execution: Number = Execution.USUAL
    """How kernels are launched."""
    lora: Number = 0
    """Rank of the adapters, which then are all that is trained (LoRA); 0: every weight is trained."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one step works through."""

    sequence: Number
    """Tokens per sequence."""
    sequences: Number
    """Sequences per step, over all devices: the global batch."""
