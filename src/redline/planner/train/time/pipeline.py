"""How long a pipeline of stages takes for the micro-batches of a step, in closed form, on columns.

Every stage works through its micro-batches in a fixed order, and a piece of work starts when the one before it on the
stage is done and its input has arrived. The time is that of the longest chain of pieces that wait for each other. For
each order below, only a handful of chains can be the longest, so the closed forms are exact; the simulation in
`simulate` confirms it.

All stages have the same layers; the last one also has the head. A send delays who waits for it, and nothing else.
Chunks make it the interleaved 1F1B, whatever `schedule` says.
"""

from dataclasses import dataclass, replace

import numpy as np

from redline.model.model import Column
from redline.planner.train.training_choices import PipelineSchedule


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
    """Of the slowest stage. GPipe waits for the slowest of each direction."""
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
