"""From the pieces of a step to its time, in closed form, by what it is spent on. Columns, one row per layout."""

from dataclasses import dataclass

import numpy as np

from redline.model.model import Column
from redline.planner.train.layout import Schedule
from redline.planner.train.outcome import StepTime
from redline.planner.train.time.gathers import Late, late
from redline.planner.train.time.pieces import Pieces
from redline.planner.train.time.pipeline import Stages, pipeline_time


@dataclass(frozen=True, kw_only=True)
class LayerDuration:
    """How long a layer takes with all that happens in it but gathers and scatters."""

    forward_s: Column
    backward_s: Column
    host_s: Column


def layer_duration(pieces: Pieces) -> LayerDuration:
    """Kernels and traffic after each other, or the host where it takes longer."""
    sent_s = pieces.tensor_forward_s + pieces.context_forward_s + pieces.expert_forward_s
    sent_back_s = pieces.tensor_backward_s + pieces.context_backward_s + pieces.expert_backward_s
    device_s = pieces.forward_s + sent_s
    device_back_s = pieces.backward_s + pieces.recompute_s + sent_back_s
    busy_s = np.maximum(device_s, pieces.host_forward_s)
    busy_back_s = np.maximum(device_back_s, pieces.host_backward_s)
    host_s = busy_s - device_s + busy_back_s - device_back_s
    return LayerDuration(forward_s=busy_s, backward_s=busy_back_s, host_s=host_s)


def exposed_reduction_s(pieces: Pieces, stages: Stages) -> Column:
    """Each layer's gradients are reduced once the last micro-batch has passed it, so the last ones hide behind nothing.

    With chunks the last micro-batch passes one chunk after the other, and others in between.
    """
    apart = (pieces.schedule == Schedule.ZERO_BUBBLE) & (pieces.stages > 1) & (pieces.chunks <= 1)
    pass_s = np.where(apart, stages.weight_gradient_s, stages.backward_s)
    beside_s, layers = pieces.overlap * pieces.reduce_s, pieces.layers_per_stage
    chunks = np.where(pieces.stages > 1, pieces.chunks, 1.0)
    first_s = pass_s / layers  # nothing to reduce before it is done
    passes = ((chunks - 1) * pieces.stages + 1) / chunks
    late_s = np.maximum(beside_s / chunks - pass_s / chunks, beside_s - passes * pass_s) + first_s
    exposed: Column = (1 - pieces.overlap) * pieces.reduce_s + np.maximum(beside_s / layers, late_s)
    return np.where(pieces.reduce_s > 0, exposed, 0.0)


def stages_of(pieces: Pieces, layer: LayerDuration, gathers: Late) -> Stages:
    """What the pipeline is made of: every stage but the last has as many layers as the fullest."""
    many = pieces.layers_per_stage
    forward_s = many * layer.forward_s + gathers.forward_s
    backward_s = many * layer.backward_s + gathers.backward_s
    weights_s = many * pieces.weight_gradient_s + gathers.weights_s
    fewer = many - pieces.layers_last_stage
    return Stages(
        stages=pieces.stages,
        chunks=pieces.chunks,
        micro_batches=pieces.micro_batches,
        schedule=pieces.schedule,
        forward_s=forward_s + pieces.host_micro_batch_s,
        backward_s=backward_s,
        weight_gradient_s=weights_s,
        head_forward_s=pieces.head_forward_s - gathers.head_s - fewer * forward_s / many,
        head_backward_s=pieces.head_backward_s - fewer * backward_s / many,
        head_weight_gradient_s=-fewer * weights_s / many,
        send_s=pieces.send_s,
    )


def _shorter_way_s(pieces: Pieces, stages: Stages) -> Column:
    """What the way through the pipeline is shorter by, because some stages before the last have a layer less."""
    missing = (pieces.stages - 1) * pieces.layers_per_stage - (pieces.layers - pieces.layers_last_stage)
    both_s = stages.forward_s + stages.backward_s - pieces.host_micro_batch_s
    shorter: Column = np.maximum(missing, 0.0) * both_s / pieces.layers_per_stage
    return np.where(pieces.stages > 1, shorter, 0.0)


def step_time(pieces: Pieces) -> StepTime:
    """Of every row: its exclusive parts add up to the step."""
    layer = layer_duration(pieces)
    gathers = late(pieces, layer.forward_s, layer.backward_s)
    stages = stages_of(pieces, layer, gathers)
    pipeline = pipeline_time(stages)
    times = pieces.micro_batches * pieces.layers_per_stage
    host_s = times * layer.host_s + pieces.micro_batches * pieces.host_micro_batch_s + pieces.host_step_s
    saved_s = (pieces.stages - 1) * gathers.hop_s + _shorter_way_s(pieces, stages)
    return StepTime(
        compute_s=times * (pieces.forward_s + pieces.backward_s),
        recompute_s=times * pieces.recompute_s,
        host_s=host_s,
        head_s=pipeline.work_s - pieces.micro_batches * (stages.forward_s + stages.backward_s),
        tensor_s=times * (pieces.tensor_forward_s + pieces.tensor_backward_s),
        context_s=times * (pieces.context_forward_s + pieces.context_backward_s),
        expert_s=times * (pieces.expert_forward_s + pieces.expert_backward_s),
        pipeline_s=pipeline.sends_s,
        bubble_s=np.maximum(pipeline.bubble_s - saved_s, 0.0),
        gather_s=pieces.micro_batches * (gathers.forward_s + gathers.backward_s) + gathers.edges_s,
        reduce_s=exposed_reduction_s(pieces, stages) + pieces.broadcast_s,
        optimizer_s=pieces.optimizer_s,
        offload_s=pieces.offload_s,
    )
