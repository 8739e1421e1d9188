"""How a job is laid out over its devices, as numbers or columns of numbers: one row per layout."""

from dataclasses import dataclass, fields, replace

import numpy as np

from redline.model.model import Column, Model, Number
from redline.model.parameters import LayerParameters, adapter_parameters, count_parameters, layer_parameters
from redline.plan.train.training_choices import Execution, PipelineSchedule, Recompute


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


# --- trainable parameters ---------------------------------------------------------------------------------------------
# Time and memory both count with these: gradients, their traffic and the optimizer are of trained parameters alone.


def frozen(layout: Layout) -> Number:
    """1 where the weights of the model are not trained."""
    return np.where(np.asarray(layout.lora) > 0, 1.0, 0.0)


def trained_layer(model: Model, layout: Layout) -> LayerParameters:
    """Trained parameters of an average layer, by how they are spread over devices."""
    whole = layer_parameters(model)
    if not np.any(layout.lora):
        return whole
    adapters, only = adapter_parameters(model, layout.lora), frozen(layout)
    names = [field.name for field in fields(LayerParameters)]
    return LayerParameters(
        **{name: np.where(only == 1, getattr(adapters, name), getattr(whole, name)) for name in names}
    )


def trained_ends(layout: Layout) -> Number:
    """Share of the embedding, the head and all else outside the layers that is trained: adapters leave these alone."""
    return 1.0 - frozen(layout)


def trained_parameters(model: Model, layout: Layout) -> Number:
    ends = count_parameters(model).total - model.layers * layer_parameters(model).total
    return model.layers * trained_layer(model, layout).total + trained_ends(layout) * ends


# --- stages of a pipeline ---------------------------------------------------------------------------------------------
# The peak of memory is on one of three. The first has the most micro-batches in flight and the embedding; the last
# has the head, whose logits can outweigh all layers. Where layers do not divide evenly, these two get fewer, and the
# second stage is the first of the fullest.


@dataclass(frozen=True, kw_only=True)
class PipelineStage:
    """Columns, one row per layout."""

    layers: Column
    in_flight: Column
    """Micro-batches whose activations are held; a fraction where only some of the layers hold them (interleaving)."""
    embedding: Column
    """1 where the stage has it."""
    head: Column


def micro_batches(batch: Batch, layout: Layout) -> Column:
    """How many a pipeline works through in a step."""
    share: Column = np.maximum(1.0, np.asarray(batch.sequences / (layout.dp * layout.micro_batch), np.float64))
    return share


def first_stage(model: Model, batch: Batch, layout: Layout, head_weighs: Number) -> PipelineStage:
    pp = np.asarray(layout.pp, np.float64)
    whole = np.asarray(model.layers, np.float64)
    even = np.ceil(whole / pp)
    layers = np.where(np.asarray(head_weighs) > 0, _weighed_boundary(model, pp, 1.0), even)
    return PipelineStage(
        layers=np.where(pp == 1, whole, layers),
        in_flight=in_flight(layout, micro_batches(batch, layout), 0.0),
        embedding=np.ones_like(pp),
        head=np.where(pp == 1, 1.0, 0.0),
    )


def last_stage(model: Model, batch: Batch, layout: Layout, head_weighs: Number) -> PipelineStage:
    pp = np.asarray(layout.pp, np.float64)
    whole = np.asarray(model.layers, np.float64)
    layers = np.where(np.asarray(head_weighs) > 0, whole - _weighed_boundary(model, pp, pp - 1), np.floor(whole / pp))
    return PipelineStage(
        layers=np.where(pp == 1, whole, layers),
        in_flight=in_flight(layout, micro_batches(batch, layout), pp - 1),
        embedding=np.where(pp == 1, 1.0, 0.0),
        head=np.ones_like(pp),
    )


def memory_stages(model: Model, batch: Batch, layout: Layout, head_weighs: Number) -> tuple[PipelineStage, ...]:
    """Those that can be the fullest: first, second, last. There is a second between the others from three stages on."""
    first, last = (find(model, batch, layout, head_weighs) for find in (first_stage, last_stage))
    uneven = np.asarray(model.layers % layout.pp != 0) & (np.asarray(head_weighs) == 0)
    missing = np.ceil(model.layers / np.asarray(layout.pp)) * layout.pp - model.layers
    fewer = np.where(uneven & (missing >= 2), 1.0, 0.0)
    if not np.any(fewer):
        return first, last
    second = replace(
        first,
        in_flight=in_flight(layout, micro_batches(batch, layout), 1.0),
        embedding=np.zeros_like(first.embedding),
        layers=np.where(np.asarray(layout.pp) > 2, first.layers, 0.0),
    )
    return replace(first, layers=first.layers - fewer), second, last


def head_layers(model: Model) -> Number:
    """How many layers the head costs as much as, by the weights of their matmuls."""
    layer = layer_parameters(model)
    return model.vocab * model.hidden / (layer.total - layer.whole)


def _weighed_boundary(model: Model, pp: Column, stage: Number) -> Column:
    """Layers before the end of a stage, where a stage is closed as soon as its share of the FLOPs is exceeded."""
    share = stage * (model.layers + head_layers(model)) / pp
    boundary: Column = np.minimum(model.layers, np.floor(share + 1e-9) + 1)
    return boundary


def in_flight(layout: Layout, micro_batches: Number, stage: Number) -> Column:
    """Micro-batches whose activations a stage keeps at once, at most.

    1F1B holds one per stage that is still to come, and its own. Interleaved, a stage starts
    2 (pp - 1 - stage) + (chunks - 1) pp pieces of layers before the first backward pass, and one more; a piece is
    1 / chunks of the stage (Megatron-LM's warm-up). GPipe holds all. Zero-bubble schedules are taken for 1F1B: the
    variants that hold more are not modelled.
    """
    pp, chunks = layout.pp, np.maximum(1.0, layout.chunks)
    pieces = np.where(chunks > 1, 2 * (pp - 1 - stage) + (chunks - 1) * pp + 1, pp - stage)
    at_once = np.asarray(layout.schedule) == PipelineSchedule.GPIPE
    held = np.where(at_once, micro_batches, np.minimum(pieces / chunks, micro_batches))
    return np.where(np.asarray(pp) == 1, 1.0, held)
