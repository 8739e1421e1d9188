"""From the pieces of a step to its time, in closed form, by what it is spent on. Columns, one row per layout."""

from dataclasses import dataclass

import numpy as np

from redline.cost.train.outcome import Column, StepTime
from redline.cost.train.pieces import Pieces
from redline.cost.train.pipeline import Stages, pipeline_time


@dataclass(frozen=True, kw_only=True)
class LayerDuration:
    """How long a layer takes with all that happens in it, and what of it nothing hides."""

    forward_s: Column
    backward_s: Column
    host_s: Column
    gather_s: Column


def layer_duration(pieces: Pieces) -> LayerDuration:
    """Kernels and traffic after each other, or the host where it takes longer; gathered weights where they are late."""
    sent_s = pieces.tensor_forward_s + pieces.context_forward_s + pieces.expert_forward_s
    sent_back_s = pieces.tensor_backward_s + pieces.context_backward_s + pieces.expert_backward_s
    device_s = pieces.forward_s + sent_s
    device_back_s = pieces.backward_s + pieces.recompute_s + sent_back_s
    busy_s = np.maximum(device_s, pieces.host_forward_s)
    busy_back_s = np.maximum(device_back_s, pieces.host_backward_s)
    late_s = exposed_s(pieces.gather_s, busy_s, pieces.overlap)
    late_back_s = exposed_s(pieces.gather_s + pieces.scatter_s, busy_back_s, pieces.overlap)
    return LayerDuration(
        forward_s=busy_s + late_s,
        backward_s=busy_back_s + late_back_s,
        host_s=busy_s - device_s + busy_back_s - device_back_s,
        gather_s=late_s + late_back_s,
    )


def exposed_s(traffic_s: Column, compute_s: Column, overlap: Column) -> Column:
    """What traffic adds to the compute that it runs beside: at most the share `overlap` of it hides."""
    exposed: Column = np.maximum(traffic_s - compute_s, (1 - overlap) * traffic_s)
    return exposed


def stages_of(pieces: Pieces) -> Stages:
    """What the pipeline is made of. A last stage with fewer layers counts as one with a smaller head."""
    layer = layer_duration(pieces)
    many, fewer = pieces.layers_per_stage, pieces.layers_per_stage - pieces.layers_last_stage
    return Stages(
        stages=pieces.stages,
        chunks=pieces.chunks,
        micro_batches=pieces.micro_batches,
        schedule=pieces.schedule,
        forward_s=many * layer.forward_s + pieces.host_micro_batch_s,
        backward_s=many * layer.backward_s,
        weight_gradient_s=many * pieces.weight_gradient_s,
        head_forward_s=np.maximum(pieces.head_forward_s - fewer * layer.forward_s, 0.0),
        head_backward_s=np.maximum(pieces.head_backward_s - fewer * layer.backward_s, 0.0),
        send_s=pieces.send_s,
    )


def _evenness(pieces: Pieces, stages: Stages) -> Column:
    """What stages take on average beside the busiest, as a share of it: 1 where all are alike, less where they are not.

    The bubble is the way of one micro-batch through all other stages, so it shrinks with it.
    """
    layer = layer_duration(pieces)
    head_s = pieces.head_forward_s + pieces.head_backward_s
    once_s = pieces.layers * (layer.forward_s + layer.backward_s) + head_s + pieces.stages * pieces.host_micro_batch_s
    same_s = stages.forward_s + stages.backward_s
    busiest_s = same_s + stages.head_forward_s + stages.head_backward_s
    others_s = np.maximum(pieces.stages - 1, 1) * same_s
    share: Column = np.clip((once_s - busiest_s) / others_s, 0.0, 1.0)
    return share


def step_time(pieces: Pieces) -> StepTime:
    """Of every row: its exclusive parts add up to the step."""
    layer, stages = layer_duration(pieces), stages_of(pieces)
    pipeline = pipeline_time(stages)
    times = pieces.micro_batches * pieces.layers_per_stage
    reduce_s = exposed_s(pieces.reduce_s, stages.backward_s, pieces.overlap)
    host_s = times * layer.host_s + pieces.micro_batches * pieces.host_micro_batch_s + pieces.host_step_s
    return StepTime(
        compute_s=times * (pieces.forward_s + pieces.backward_s),
        recompute_s=times * pieces.recompute_s,
        host_s=host_s,
        head_s=pieces.micro_batches * (stages.head_forward_s + stages.head_backward_s),
        tensor_s=times * (pieces.tensor_forward_s + pieces.tensor_backward_s),
        context_s=times * (pieces.context_forward_s + pieces.context_backward_s),
        expert_s=times * (pieces.expert_forward_s + pieces.expert_backward_s),
        pipeline_s=pipeline.sends_s,
        bubble_s=pipeline.bubble_s * _evenness(pieces, stages),
        gather_s=times * layer.gather_s,
        reduce_s=reduce_s + pieces.broadcast_s,
        optimizer_s=pieces.optimizer_s,
        offload_s=pieces.offload_s,
    )
