"""From the pieces of a step to its time, in closed form, by what it is spent on. Columns, one row per layout."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column
from redline.plan.train.step_cost import StepTime
from redline.plan.train.time.layer import ATTENTION_BACKWARD
from redline.plan.train.time.step_costs import WEIGHTS_HOST, StepCosts
from redline.plan.train.training_choices import PipelineSchedule

# Ring attention sends keys and values once forward; backward these and their gradients.
RINGS = 3


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One condition: traffic is hidden where compute, at the same time, takes at least as long. All of one step, on the
    slowest stage.
    """

    kind: str
    """data, gather, tensor, context, expert or pipeline."""
    compute_s: float
    """What could hide it."""
    traffic_s: float
    exposed_s: float

    @property
    def ratio(self) -> float:
        """Compute per traffic: 1 or more can hide it all."""
        return self.compute_s / self.traffic_s

    @property
    def is_hidden(self) -> bool:
        # Less than a thousandth of what there is to hide: the first or last piece, which nothing can hide.
        return self.exposed_s <= 1e-3 * self.traffic_s


def overlaps(costs: StepCosts[float], time: StepTime) -> tuple[Overlap, ...]:
    """Of one layout: both values have plain numbers in the place of columns. Only traffic that there is."""
    forward_s = max(costs.forward_s, costs.host_forward_s)
    backward_s = max(costs.backward_s + costs.recompute_s, costs.host_backward_s)
    times = costs.micro_batches * costs.layers_per_stage
    passes_s = times * (forward_s + backward_s)
    tensor_s = times * costs.tensor_sent_s * _both_ways(costs.tensor_forward_s, costs.tensor_backward_s)
    expert_s = times * costs.expert_sent_s * _both_ways(costs.expert_forward_s, costs.expert_backward_s)
    kinds = (
        ("data", costs.layers_per_stage * backward_s, costs.reduce_s + costs.broadcast_s, time.reduce_s),
        ("gather", passes_s, times * (2 * costs.gather_s + costs.scatter_s), time.gather_s),
        ("tensor", passes_s, tensor_s, time.tensor_s),
        ("context", times * (1 + ATTENTION_BACKWARD) * costs.attention_s, times * RINGS * costs.ring_s, time.context_s),
        ("expert", passes_s, expert_s, time.expert_s),
        ("pipeline", passes_s, 2 * costs.micro_batches * costs.chunks * costs.send_s, time.pipeline_s),
    )
    return tuple(
        Overlap(kind=kind, compute_s=float(compute), traffic_s=float(traffic), exposed_s=float(exposed))
        for kind, compute, traffic, exposed in kinds
        if traffic > 0
    )


def _both_ways(forward_s: float, backward_s: float) -> float:
    """How often a step sends what a forward pass sends; where all of it hides, a backward pass sends as much."""
    return 1 + (backward_s / forward_s if forward_s > 0 else 1.0)


# --- gathers ----------------------------------------------------------------------------------------------------------
# A layer's weights are gathered while the layer before computes, its gradients are scattered while the next one does.
# So it matters what follows what: the last layer of a forward pass is followed by the first of a backward pass (or,
# with GPipe, of another forward pass), and the head lies between the two.


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
    """The time that traffic adds to the compute beside it: at most the share `overlap` of it hides."""
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


# --- pipelines --------------------------------------------------------------------------------------------------------
# Every stage works through its micro-batches in a fixed order, and a piece of work starts when the one before it on
# the stage is done and its input has arrived. The time is that of the longest chain of pieces that wait for each
# other. For each order below, only a handful of chains can be the longest, so the closed forms are exact; the
# simulation in `simulate` confirms it.
#
# All stages have the same layers; the last one also has the head. A send delays who waits for it, and nothing else.
# Chunks make it the interleaved 1F1B, whatever `schedule` says.


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Seconds of one micro-batch on one whole stage (all of its chunks), and how many there are of everything."""

    stages: Column
    chunks: Column
    micro_batches: Column
    schedule: Column
    forward_s: Column
    backward_s: Column
    """Both gradients, and what is computed again."""
    weight_gradient_s: Column
    """The part of `backward_s` that nothing waits for."""
    head_forward_s: Column
    """What the last stage takes longer than the others; negative where it has fewer layers and a small head."""
    head_backward_s: Column
    head_weight_gradient_s: Column
    """The part of `head_backward_s` that nothing waits for."""
    send_s: Column
    """From one stage to the next, one way, once."""


@dataclass(frozen=True, kw_only=True)
class PipelineTime:
    """Exclusive parts: they add up to the time from the first forward to the last backward pass."""

    work_s: Column
    """What the slowest stage computes."""
    bubble_s: Column
    """Waiting for other stages while they compute."""
    sends_s: Column
    """Waiting that would not be there if sends took no time."""

    @property
    def total_s(self) -> Column:
        return self.work_s + self.bubble_s + self.sends_s


def pipeline_time(stages: Stages) -> PipelineTime:
    """The time of every row, by what it is spent on."""
    work = _work(stages)
    without_sends = _duration(replace(stages, send_s=np.zeros_like(work)))
    bubble = np.maximum(without_sends - work, 0.0)
    return PipelineTime(work_s=work, bubble_s=bubble, sends_s=np.maximum(_duration(stages) - work - bubble, 0.0))


def _duration(given: Stages) -> Column:
    cases = (
        (given.stages <= 1, _work),
        (given.chunks > 1, _interleaved),
        (given.schedule == PipelineSchedule.GPIPE, _gpipe),
        (given.schedule == PipelineSchedule.ZERO_BUBBLE, _zero_bubble),
    )
    durations: Column = np.select([case for case, _ in cases], [form(given) for _, form in cases], _one_by_one(given))
    return durations


def _work(given: Stages) -> Column:
    """The work of the slowest stage. GPipe waits for the slowest of each direction."""
    by_direction = np.maximum(given.head_forward_s, 0.0) + np.maximum(given.head_backward_s, 0.0)
    together = np.maximum(given.head_forward_s + given.head_backward_s, 0.0)
    gpipe = (given.schedule == PipelineSchedule.GPIPE) & (given.stages > 1) & (given.chunks <= 1)
    longer = np.where(given.stages > 1, np.where(gpipe, by_direction, together), _head(given))
    work: Column = given.micro_batches * (given.forward_s + given.backward_s + longer)
    return work


def _head(given: Stages) -> Column:
    return given.head_forward_s + given.head_backward_s


def _gpipe(given: Stages) -> Column:
    """All forward passes, then all backward passes: each is a row of queues, and the slowest stage sets the pace."""
    through = (given.stages - 1) * (given.forward_s + given.backward_s + 2 * given.send_s)
    lighter = np.minimum(given.head_forward_s, 0.0) + np.minimum(given.head_backward_s, 0.0)
    duration: Column = through + _work(given) + lighter
    return duration


def _one_by_one(given: Stages) -> Column:
    """1F1B: down to the last stage, through all its work (or up and down again, where that takes longer), and up.

    Where the last stage is the lightest, the one before it sets the pace, and its last or first pass is not waited for.
    """
    both, head = given.forward_s + given.backward_s, _head(given)
    others, more = given.stages - 1, given.micro_batches - 1
    along = others * (both + 2 * given.send_s) + given.micro_batches * both
    # Loops between all stages but the last.
    sends = 2 * given.send_s * (more - np.ceil(more / np.maximum(others, 1)))
    visit = np.where(more > 0, np.minimum(given.forward_s, given.backward_s), 0.0)
    chains = (head + _extra(given, head), head - visit + sends, sends - both - 2 * given.send_s)
    longest: Column = along + np.maximum.reduce(chains)
    return longest


def _extra(given: Stages, on_last: Column) -> Column:
    """What micro-batches after the first add to their compute: time of the last stage alone, or sends up and down.

    A stage may run ahead of the last by as many micro-batches as there are stages between them, so a chain that goes
    all the way up and down again passes `stages` micro-batches and waits for 2 (stages - 1) sends.
    """
    more = given.micro_batches - 1
    loops = np.ceil(more / given.stages)
    extra: Column = np.maximum(more * on_last, 2 * given.send_s * (more - loops) + loops * on_last)
    return extra


def _zero_bubble(given: Stages) -> Column:
    """ZB-H1: 1F1B whose stage k puts off weight gradients by k micro-batches, to fill its gaps with."""
    weight, inputs = given.weight_gradient_s, given.backward_s - given.weight_gradient_s
    head = _head(given) - given.head_weight_gradient_s
    others, more = given.stages - 1, given.micro_batches - 1
    down = others * (given.forward_s + given.send_s)
    first = down + given.forward_s + inputs + head
    up = others * (inputs + given.send_s)
    along = first + more * (given.forward_s + inputs)
    ahead = np.maximum(given.micro_batches - given.stages, 0)
    chains = (
        along + more * head + given.micro_batches * (weight + given.head_weight_gradient_s),
        along + _extra_with_weights(given, head) + up + weight,
        along
        + _extra(given, head)
        + np.maximum(given.stages - given.micro_batches, 0) * (inputs + given.send_s)
        + np.minimum(given.stages, given.micro_batches) * weight
        + np.where(given.micro_batches >= given.stages, given.stages * given.head_weight_gradient_s, 0.0),
        first + up + more * (inputs + weight) + ahead * given.forward_s + weight,
        *_before_the_last(given, first),
    )
    longest: Column = np.maximum.reduce(chains)
    return longest


def _before_the_last(given: Stages, first: Column) -> tuple[Column, ...]:
    """Chains along the stage before the last, for where that one is lighter: with or without a visit to it first."""
    weight, inputs = given.weight_gradient_s, given.backward_s - given.weight_gradient_s
    others, many = given.stages - 2, given.micro_batches
    straight = others * (given.forward_s + given.send_s) + many * (given.forward_s + inputs)
    visiting = first + given.send_s + many * (given.forward_s + inputs) - 2 * given.forward_s
    begun = np.where(many > 1, np.maximum(straight, visiting), straight)
    up = np.maximum(many - 1 - others, 0) * weight + others * (inputs + given.send_s) + weight
    return begun + many * weight, begun + up


def _extra_with_weights(given: Stages, head: Column) -> Column:
    """As `_extra`, with the weight gradients that lie on the chain: none before as many micro-batches as stages."""
    weight, more = given.weight_gradient_s, given.micro_batches - 1
    on_last = weight + given.head_weight_gradient_s
    ahead = np.maximum(given.micro_batches - given.stages, 0)
    long = ahead > 0
    loops = np.ceil(more / given.stages)
    first_loop = head + 2 * given.send_s * (given.stages - 1) + weight
    chains = (
        more * head + ahead * on_last,
        2 * given.send_s * (more - loops) + (head + np.where(long, weight, 0.0)) * loops,
        np.where(long, first_loop + (ahead - 1) * (head + on_last), 0.0),
    )
    longest: Column = np.maximum.reduce(chains)
    return longest


def _interleaved(given: Stages) -> Column:
    """1F1B on chunks: the first micro-batch passes every stage `chunks` times, and stages wait only for parts."""
    both = given.forward_s + given.backward_s
    # Micro-batches go round in groups of as many as there are stages; a group that is not full leaves gaps.
    absent = -given.micro_batches % given.stages
    gaps = absent * (given.chunks - 1) / given.chunks * both
    sends = 2 * (given.chunks * given.stages - 1) * given.send_s
    # A lighter last stage: the one before it sets the pace, and one of its passes is not waited for.
    lighter = np.maximum(-_head(given), 0.0) * given.micro_batches
    saved = np.minimum(lighter, np.minimum(given.forward_s, given.backward_s) / given.chunks)
    return _work(given) + gaps + (given.stages - 1) * both / given.chunks - saved + sends


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
    """The step of every row: its exclusive parts add up to it."""
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
