"""What gathering weights and scattering gradients (ZeRO-3) adds to the passes of a stage. Columns, one row per layout.

A layer's weights are gathered while the layer before computes, its gradients are scattered while the next one does. So
it matters what follows what: the last layer of a forward pass is followed by the first of a backward pass (or, with
GPipe, of another forward pass), and the head lies between the two.
"""

from dataclasses import dataclass

import numpy as np

from redline.model.model import Column
from redline.planner.train.time.step_costs import StepCosts
from redline.planner.train.training_choices import PipelineSchedule


@dataclass(frozen=True, kw_only=True)
class ExposedGathers:
    """Seconds that compute waits for this traffic."""

    forward_s: Column
    """Of one micro-batch on one stage."""
    backward_s: Column
    """With that of `weights_s`."""
    weights_s: Column
    """Of a pass for gradients of weights alone (zero-bubble)."""
    head_s: Column
    """What hides behind the head, of one micro-batch on the last stage."""
    hop_s: Column
    """What does not hold up the next stage, of one pass there and back through one chunk."""
    edges_s: Column
    """Once per step: the first gather and the last scatter have nothing to hide behind."""


def exposed_s(traffic_s: Column, compute_s: Column, overlap: Column) -> Column:
    """What traffic adds to the compute that it runs beside: at most the share `overlap` of it hides."""
    exposed: Column = np.maximum(traffic_s - compute_s, (1 - overlap) * traffic_s)
    return exposed


def late(costs: StepCosts[Column], forward_s: Column, backward_s: Column, weights_s: Column) -> ExposedGathers:
    """Given what one layer takes without it: forward, backward, and the part of that for gradients of weights."""
    chunks = np.where(costs.stages > 1, costs.chunks, 1.0)
    in_turn = (costs.stages <= 1) | (chunks > 1) | (costs.schedule == PipelineSchedule.ONE_F_ONE_B)
    apart = ~in_turn & (costs.schedule == PipelineSchedule.ZERO_BUBBLE)
    by_schedule = [_in_turn(costs, forward_s, backward_s, chunks), _apart(costs, forward_s, backward_s, weights_s)]
    by_schedule.append(_all_forward_first(costs, forward_s, backward_s))
    names = tuple(ExposedGathers.__dataclass_fields__)
    chosen = {
        name: np.select(
            [in_turn, apart], [getattr(exposed, name) for exposed in by_schedule[:2]], getattr(by_schedule[2], name)
        )
        for name in names
    }
    return ExposedGathers(**chosen)


def _in_turn(costs: StepCosts[Column], forward_s: Column, backward_s: Column, chunks: Column) -> ExposedGathers:
    """1F1B, or no pipeline: the last scatter of a backward pass is beside the first layer of a forward pass."""
    gather, both, overlap = costs.gather_s, costs.gather_s + costs.scatter_s, costs.overlap
    others = costs.layers_per_stage - chunks
    waiting_s = costs.host_micro_batch_s / chunks
    first_s, usual_s = exposed_s(both, waiting_s + forward_s, overlap), exposed_s(gather, forward_s, overlap)
    first_back_s, usual_back_s = exposed_s(gather, backward_s, overlap), exposed_s(both, backward_s, overlap)
    beside_head = np.where(others == 0, both, gather)
    # Interleaved stages do many forward passes ahead, so as many passes follow one of their own direction.
    ahead = np.minimum((chunks - 1) * costs.stages / (costs.micro_batches * chunks), 1.0)
    return ExposedGathers(
        forward_s=chunks * ((1 - ahead) * first_s + ahead * usual_s) + others * usual_s,
        backward_s=chunks * ((1 - ahead) * first_back_s + ahead * usual_back_s) + others * usual_back_s,
        weights_s=np.zeros_like(gather),
        head_s=_hidden_behind(costs.head_forward_s + costs.head_backward_s, beside_head, forward_s, overlap),
        hop_s=first_s + usual_back_s,
        edges_s=_edges(costs, forward_s, backward_s) - (first_s - usual_s),
    )


def _all_forward_first(costs: StepCosts[Column], forward_s: Column, backward_s: Column) -> ExposedGathers:
    """GPipe: passes of one direction follow each other."""
    gather, both, overlap = costs.gather_s, costs.gather_s + costs.scatter_s, costs.overlap
    usual_s, usual_back_s = exposed_s(gather, forward_s, overlap), exposed_s(both, backward_s, overlap)
    behind_s = _hidden_behind(costs.head_forward_s, gather, forward_s, overlap)
    return ExposedGathers(
        forward_s=costs.layers_per_stage * usual_s,
        backward_s=costs.layers_per_stage * usual_back_s,
        weights_s=np.zeros_like(gather),
        head_s=behind_s + _hidden_behind(costs.head_backward_s, both, backward_s, overlap),
        hop_s=usual_s + usual_back_s,
        edges_s=_edges(costs, forward_s, backward_s),
    )


def _apart(costs: StepCosts[Column], forward_s: Column, backward_s: Column, weight_s: Column) -> ExposedGathers:
    """Zero-bubble: gradients are scattered in the pass that computes them, which needs no weights."""
    gather, scatter, overlap = costs.gather_s, costs.scatter_s, costs.overlap
    input_s, others = backward_s - weight_s, costs.layers_per_stage - 1
    first_s = exposed_s(gather + scatter, costs.host_micro_batch_s + forward_s, overlap)
    usual_s = exposed_s(gather, forward_s, overlap)
    scattered = np.where(others > 0, scatter, 0.0)
    last_s = exposed_s(scattered + gather, weight_s, overlap) - exposed_s(scattered, weight_s, overlap)
    weights_s = others * exposed_s(scatter, weight_s, overlap) + last_s
    head = costs.head_forward_s + costs.head_backward_s
    return ExposedGathers(
        forward_s=first_s + others * usual_s,
        backward_s=others * exposed_s(gather, input_s, overlap) + weights_s,
        weights_s=weights_s,
        head_s=_hidden_behind(head, np.where(others == 0, gather + scatter, gather), forward_s, overlap),
        hop_s=first_s,
        edges_s=_edges(costs, forward_s, weight_s) - (first_s - usual_s),
    )


def _hidden_behind(head_s: Column, traffic_s: Column, compute_s: Column, overlap: Column) -> Column:
    return exposed_s(traffic_s, compute_s, overlap) - exposed_s(traffic_s, compute_s + head_s, overlap)


def _edges(costs: StepCosts[Column], forward_s: Column, backward_s: Column) -> Column:
    first_s = np.minimum(forward_s, costs.overlap * costs.gather_s)
    last_s: Column = np.minimum(backward_s, costs.overlap * costs.scatter_s)
    return first_s + last_s
