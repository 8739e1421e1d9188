"""Every stage does all of its work once, in an order that the other stages can follow."""

from itertools import product

import pytest

from redline.plan.train.layout import Layout, in_flight
from redline.plan.train.simulation.schedule import MicroBatchPass, Pass, work_order
from redline.plan.train.training_choices import PipelineSchedule

CASES = [
    (schedule, stages, chunks, micro_batches)
    for schedule, stages, chunks, micro_batches in product(PipelineSchedule, (2, 3, 4), (1, 2, 3), (1, 3, 4, 8, 12))
    if chunks == 1 or schedule == PipelineSchedule.ONE_F_ONE_B
]


@pytest.mark.parametrize(("schedule", "stages", "chunks", "micro_batches"), CASES)
def test_all_work_is_done_once(schedule: PipelineSchedule, stages: int, chunks: int, micro_batches: int) -> None:
    kinds = list(Pass) if schedule == PipelineSchedule.ZERO_BUBBLE else [Pass.FORWARD, Pass.BACKWARD]
    every = {MicroBatchPass(*one) for one in product(kinds, range(chunks), range(micro_batches))}
    for stage in range(stages):
        order = work_order(schedule, stages, chunks, micro_batches, stage)
        assert len(order) == len(every)
        assert set(order) == every


@pytest.mark.parametrize(("schedule", "stages", "chunks", "micro_batches"), CASES)
def test_the_first_stage_keeps_as_many_micro_batches_as_is_said(
    schedule: PipelineSchedule, stages: int, chunks: int, micro_batches: int
) -> None:
    kept = most = 0
    for work in work_order(schedule, stages, chunks, micro_batches, 0):
        kept += {Pass.FORWARD: 1, Pass.BACKWARD: -1, Pass.WEIGHTS: 0}[work.kind]
        most = max(most, kept)
    said = float(in_flight(Layout(pp=stages, chunks=chunks, schedule=schedule), micro_batches, 0))
    full = chunks == 1 or micro_batches % stages == 0
    assert most / chunks == said if full else most / chunks <= said


def test_zero_bubble_puts_weights_off_by_the_number_of_the_stage() -> None:
    order = work_order(PipelineSchedule.ZERO_BUBBLE, 4, 1, 8, 3)
    first = next(number for number, work in enumerate(order) if work.kind is Pass.WEIGHTS)
    assert sum(work.kind is Pass.BACKWARD for work in order[:first]) == 4
    assert [work.kind for work in order[-3:]] == [Pass.WEIGHTS] * 3
