"""What a device holds from step to step: weights, gradients and the optimizer's states, divided as ZeRO says."""

from dataclasses import dataclass, replace

import numpy as np

from redline.model.model import Model, Number
from redline.model.parameters import LayerParameters, count_parameters, layer_parameters
from redline.planner.train.layout import Layout
from redline.planner.train.memory.footprint import Footprint
from redline.planner.train.stages import PipelineStage
from redline.planner.train.trained import frozen, trained_ends, trained_layer


@dataclass(frozen=True)
class States:
    """Bytes that a device holds from step to step; and those of temporaries while the optimizer works."""

    weights: Number
    gradients: Number
    spare: Number
    """Second gradients, where the first ones are added up in other bits."""
    optimizer: Number
    temporaries: Number


@dataclass(frozen=True)
class DeviceParameters:
    """Numbers on one device before ZeRO divides them: routed experts, which have fewer copies, and all others."""

    dense: Number
    experts: Number


def states_of(parameters: DeviceParameters, layout: Layout, foot: Footprint, many: Number) -> States:
    """Of trained parameters, times their bytes.

    Gradients of several micro-batches are added up before they are reduced, once per step: until then ZeRO-2 has to
    hold them whole. ZeRO-3 reduces those of every micro-batch.
    """
    zero, whole, own = np.asarray(layout.zero), parameters.dense + parameters.experts, _own(parameters, layout)
    gradients = np.where((zero >= 2) & ~((zero == 2) & (np.asarray(many) > 1)), own, whole)
    updated = np.where(zero >= 1, own, whole)
    weights = np.where(zero >= 3, own, whole) * foot.weight_bytes
    if np.any(foot.resident_weights):
        # FSDP has 32-bit weights in shards whatever it gathers; the gathered ones stay below ZeRO-3.
        resident = (np.asarray(foot.resident_weights) > 0) & (zero < 3) & (zero > 0) & np.asarray(_copies(layout) > 1)
        weights = np.where(resident, whole * foot.gather_bytes + own * foot.weight_bytes, weights)
    return States(
        weights=weights,
        gradients=gradients * foot.gradient_bytes,
        spare=gradients * foot.spare_gradient_bytes if np.any(foot.spare_gradient_bytes) else 0.0,
        optimizer=updated * (foot.master_bytes + foot.moment_bytes) * (1 - layout.offload),
        temporaries=updated * foot.step_bytes if np.any(foot.step_bytes) else 0.0,
    )


def _own(parameters: DeviceParameters, layout: Layout) -> Number:
    """Numbers of the shard of a device, of what ZeRO divides."""
    shard = np.maximum(1.0, np.where(np.asarray(layout.shard) > 0, layout.shard, _copies(layout)))
    if not np.any(parameters.experts):
        return parameters.dense / shard
    # Tensor-parallel devices that do not cut an expert have copies of it.
    expert_shard = np.maximum(1.0, shard / layout.ep * layout.tp / expert_tp(layout))
    return parameters.dense / shard + parameters.experts / expert_shard


def _copies(layout: Layout) -> Number:
    return layout.dp * layout.cp


def stage_states(model: Model, layout: Layout, stage: PipelineStage, foot: Footprint, many: Number) -> States:
    """Of a stage of a pipeline. Beside adapters there are the weights that they adapt, in the bytes of frozen ones:
    matrices of layers, while the embedding and the head keep 16 bits.
    """
    whole, ends = layer_parameters(model), _ends(model, layout, stage)
    if not np.any(layout.lora):
        return states_of(_parameters(whole, ends, layout, stage), layout, foot, many)
    trained = _parameters(trained_layer(model, layout), trained_ends(layout) * ends, layout, stage)
    states = states_of(trained, layout, foot, many)
    base = _parameters(whole, 0.0, layout, stage)
    held = np.where(np.asarray(layout.zero) >= 3, _own(base, layout), base.dense + base.experts)
    still = held * foot.frozen_bytes + ends / layout.tp * foot.gather_bytes
    return replace(states, weights=states.weights + frozen(layout) * still)


def _ends(model: Model, layout: Layout, stage: PipelineStage) -> Number:
    """Numbers of the stage outside the layers. A tied head is a matrix of its own where it stands on another stage
    than the embedding.
    """
    counted = count_parameters(model)
    head = np.where(np.asarray(layout.pp) > 1, model.vocab * model.hidden, counted.head)
    return stage.embedding * (counted.embedding + counted.positions) + stage.head * head + counted.other


def _parameters(layer: LayerParameters, ends: Number, layout: Layout, stage: PipelineStage) -> DeviceParameters:
    """On one device of the stage: tensor parallelism divides nearly all."""
    dense = stage.layers * ((layer.attention + layer.dense + layer.shared) / layout.tp + layer.whole)
    experts = stage.layers * layer.experts / (layout.ep * expert_tp(layout))
    return DeviceParameters(dense=dense + ends / layout.tp, experts=experts)


def expert_tp(layout: Layout) -> Number:
    """Into how many parts an expert is cut."""
    return np.where(np.asarray(layout.expert_tp) > 0, layout.expert_tp, layout.tp)
