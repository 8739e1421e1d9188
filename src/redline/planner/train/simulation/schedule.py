"""In which order a stage of a pipeline works through its micro-batches: forward, backward, gradients of weights."""

from enum import IntEnum
from typing import NamedTuple

from redline.planner.train.training_choices import PipelineSchedule


class Pass(IntEnum):
    """What a piece of work is."""

    FORWARD = 0
    BACKWARD = 1  # with zero-bubble schedules without the gradients of weights
    WEIGHTS = 2


class MicroBatchPass(NamedTuple):
    """One pass of one micro-batch through one chunk of layers."""

    kind: Pass
    chunk: int
    micro_batch: int


def work_order(
    schedule: PipelineSchedule, stages: int, chunks: int, micro_batches: int, stage: int
) -> list[MicroBatchPass]:
    """All work of a stage. Chunks make it the interleaved 1F1B, whatever the schedule."""
    if chunks > 1:
        # In groups of as many micro-batches as there are stages; what is missing in the last group is left out.
        whole = -(-micro_batches // stages) * stages
        ahead = 2 * (stages - 1 - stage) + (chunks - 1) * stages
        order = _alternating(_forwards(stages, chunks, whole), chunks, ahead)
        return [work for work in order if work.micro_batch < micro_batches]
    forwards = _forwards(stages, 1, micro_batches)
    order = _alternating(forwards, 1, micro_batches if schedule == PipelineSchedule.GPIPE else stages - 1 - stage)
    return _with_weights_put_off(order, stage) if schedule == PipelineSchedule.ZERO_BUBBLE else order


def _forwards(stages: int, chunks: int, micro_batches: int) -> list[MicroBatchPass]:
    """A group of micro-batches through one chunk after the other, then the next group."""
    return [
        MicroBatchPass(Pass.FORWARD, chunk, micro_batch)
        for first in range(0, micro_batches, stages)
        for chunk in range(chunks)
        for micro_batch in range(first, min(first + stages, micro_batches))
    ]


def _alternating(forwards: list[MicroBatchPass], chunks: int, ahead: int) -> list[MicroBatchPass]:
    """Some forward passes ahead, then one forward and one backward, then the backward passes that are left."""
    order = forwards[:ahead]
    for number, (_, chunk, micro_batch) in enumerate(forwards):
        order += forwards[ahead + number : ahead + number + 1]
        order.append(MicroBatchPass(Pass.BACKWARD, chunks - 1 - chunk, micro_batch))
    return order


def _with_weights_put_off(order: list[MicroBatchPass], by: int) -> list[MicroBatchPass]:
    """Gradients of weights follow the backward pass of `by` micro-batches later (ZB-H1)."""
    weights = [work._replace(kind=Pass.WEIGHTS) for work in order if work.kind is Pass.BACKWARD]
    passes, done = [], 0
    for work in order:
        passes.append(work)
        if work.kind is Pass.BACKWARD:
            done += 1
            passes += weights[done - 1 - by : done - by] if done > by else []
    return passes + weights[max(len(weights) - by, 0) :]
