"""From the pieces of a step to its time, in closed form, by what it is spent on. Columns, one row per layout."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column
from redline.planner.train.step_cost import StepTime
from redline.planner.train.time.gathers import ExposedGathers, late
from redline.planner.train.time.pipeline import Stages, pipeline_time
from redline.planner.train.time.step_costs import WEIGHTS_HOST, StepCosts
from redline.planner.train.training_choices import PipelineSchedule


@dataclass(frozen=True, kw_only=True)
class LayerDuration:
    """How long a layer takes with all that happens in it but gathers and scatters."""

    forward_s: Column
    backward_s: Column
    """Both gradients."""
    weights_s: Column
    """The part of it for gradients of weights, where they have a pass of their own (zero-bubble)."""
    host_s: Column


def layer_duration(costs: StepCosts[Column]) -> LayerDuration:
    """Kernels and traffic after each other, or the host where it takes longer."""
    sent_s = costs.tensor_forward_s + costs.context_forward_s + costs.expert_forward_s
    sent_back_s = costs.tensor_backward_s + costs.context_backward_s + costs.expert_backward_s
    device_s = costs.forward_s + sent_s
    device_back_s = costs.backward_s + costs.recompute_s + sent_back_s
    busy_s = np.maximum(device_s, costs.host_forward_s)
    # Each of two passes waits for its own launches, so what one has to spare is nothing to the other.
    weights_s = np.maximum(costs.weight_gradient_s, WEIGHTS_HOST * costs.host_backward_s)
    inputs_s = np.maximum(device_back_s - costs.weight_gradient_s, (1 - WEIGHTS_HOST) * costs.host_backward_s)
    busy_back_s = np.where(apart(costs), inputs_s + weights_s, np.maximum(device_back_s, costs.host_backward_s))
    host_s = busy_s - device_s + busy_back_s - device_back_s
    return LayerDuration(forward_s=busy_s, backward_s=busy_back_s, weights_s=weights_s, host_s=host_s)


def apart(costs: StepCosts[Column]) -> NDArray[np.bool_]:
    """Where gradients of weights have a pass of their own."""
    alone = (costs.schedule == PipelineSchedule.ZERO_BUBBLE) & (costs.stages > 1) & (costs.chunks <= 1)
    return np.asarray(alone)


def exposed_reduction_s(costs: StepCosts[Column], stages: Stages) -> Column:
    """Each layer's gradients are reduced once the last micro-batch has passed it, so the last ones hide behind nothing.

    With chunks the last micro-batch passes one chunk after the other, and others in between.
    """
    pass_s = np.where(apart(costs), stages.weight_gradient_s, stages.backward_s)
    beside_s, layers = costs.overlap * costs.reduce_s, costs.layers_per_stage
    chunks = np.where(costs.stages > 1, costs.chunks, 1.0)
    first_s = pass_s / layers  # nothing to reduce before it is done
    passes = ((chunks - 1) * costs.stages + 1) / chunks
    late_s = np.maximum(beside_s / chunks - pass_s / chunks, beside_s - passes * pass_s) + first_s
    exposed: Column = (1 - costs.overlap) * costs.reduce_s + np.maximum(beside_s / layers, late_s)
    return np.where(costs.reduce_s > 0, exposed, 0.0)


def stages_of(costs: StepCosts[Column], layer: LayerDuration, gathers: ExposedGathers) -> Stages:
    """What the pipeline is made of: every stage but the last has as many layers as the fullest."""
    many = costs.layers_per_stage
    forward_s = many * layer.forward_s + gathers.forward_s
    backward_s = many * layer.backward_s + gathers.backward_s
    weights_s = many * layer.weights_s + gathers.weights_s
    fewer = many - costs.layers_last_stage
    return Stages(
        stages=costs.stages,
        chunks=costs.chunks,
        micro_batches=costs.micro_batches,
        schedule=costs.schedule,
        forward_s=forward_s + costs.host_micro_batch_s,
        backward_s=backward_s,
        weight_gradient_s=weights_s,
        head_forward_s=costs.head_forward_s - gathers.head_s - fewer * forward_s / many,
        head_backward_s=costs.head_backward_s - fewer * backward_s / many,
        head_weight_gradient_s=-fewer * weights_s / many,
        send_s=costs.send_s,
    )


def _shorter_way_s(costs: StepCosts[Column], stages: Stages) -> Column:
    """What the way through the pipeline is shorter by, because some stages before the last have a layer less."""
    missing = (costs.stages - 1) * costs.layers_per_stage - (costs.layers - costs.layers_last_stage)
    later_s = np.where(apart(costs), stages.weight_gradient_s, 0.0)  # nothing waits for it on the way
    both_s = stages.forward_s + stages.backward_s - later_s - costs.host_micro_batch_s
    shorter: Column = np.maximum(missing, 0.0) * both_s / costs.layers_per_stage
    return np.where(costs.stages > 1, shorter, 0.0)


def step_time(costs: StepCosts[Column]) -> StepTime:
    """Of every row: its exclusive parts add up to the step."""
    layer = layer_duration(costs)
    gathers = late(costs, layer.forward_s, layer.backward_s, layer.weights_s)
    stages = stages_of(costs, layer, gathers)
    pipeline = pipeline_time(stages)
    times = costs.micro_batches * costs.layers_per_stage
    host_s = times * layer.host_s + costs.micro_batches * costs.host_micro_batch_s + costs.host_step_s
    saved_s = (costs.stages - 1) * gathers.hop_s + _shorter_way_s(costs, stages)
    return StepTime(
        compute_s=times * (costs.forward_s + costs.backward_s),
        recompute_s=times * costs.recompute_s,
        host_s=host_s,
        head_s=pipeline.work_s - costs.micro_batches * (stages.forward_s + stages.backward_s),
        tensor_s=times * (costs.tensor_forward_s + costs.tensor_backward_s),
        context_s=times * (costs.context_forward_s + costs.context_backward_s),
        expert_s=times * (costs.expert_forward_s + costs.expert_backward_s),
        pipeline_s=pipeline.sends_s,
        bubble_s=np.maximum(pipeline.bubble_s - saved_s, 0.0),
        gather_s=costs.micro_batches * (gathers.forward_s + gathers.backward_s) + gathers.edges_s,
        reduce_s=exposed_reduction_s(costs, stages) + costs.broadcast_s,
        optimizer_s=costs.optimizer_s,
        offload_s=costs.offload_s,
    )
