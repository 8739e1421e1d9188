"""The time of a pipeline is that of the book where the book has one, and that of the simulation everywhere."""

from collections.abc import Sequence

import numpy as np
import pytest

from redline.plan.train.layout import Layout, in_flight
from redline.plan.train.time.step import PipelineTime, Stages, pipeline_time
from redline.plan.train.training_choices import PipelineSchedule

FORWARD, BACKWARD, WEIGHTS = 1.0, 2.0, 1.0


def column(value: float) -> np.ndarray:
    return np.array([float(value)])


def timed(
    schedule: PipelineSchedule,
    stages: int,
    micro_batches: int,
    *,
    chunks: int = 1,
    head: float = 0.0,
    send: float = 0.0,
) -> PipelineTime:
    return pipeline_time(
        Stages(
            stages=column(stages),
            chunks=column(chunks),
            micro_batches=column(micro_batches),
            schedule=column(schedule),
            forward_s=column(FORWARD),
            backward_s=column(BACKWARD),
            weight_gradient_s=column(WEIGHTS),
            head_forward_s=column(head / 3),
            head_backward_s=column(2 * head / 3),
            head_weight_gradient_s=column(0),
            send_s=column(send),
        )
    )


@pytest.mark.parametrize("schedule", [PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 8), (2, 1), (4, 4), (4, 16), (8, 64), (8, 3)])
def test_by_the_book_a_pipeline_waits_for_one_micro_batch_on_all_other_stages(
    schedule: PipelineSchedule, stages: int, micro_batches: int
) -> None:
    time = timed(schedule, stages, micro_batches)
    assert time.work_s == pytest.approx(micro_batches * (FORWARD + BACKWARD))
    assert time.bubble_s == pytest.approx((stages - 1) * (FORWARD + BACKWARD))
    assert time.sends_s == 0


@pytest.mark.parametrize("chunks", [2, 4])
def test_chunks_divide_the_bubble(chunks: int) -> None:
    whole, interleaved = (timed(PipelineSchedule.ONE_F_ONE_B, 4, 16, chunks=each) for each in (1, chunks))
    assert interleaved.bubble_s == pytest.approx(whole.bubble_s / chunks)


def test_chunks_are_sent_more_often_but_only_waited_for_at_the_ends() -> None:
    few, many = (
        timed(PipelineSchedule.ONE_F_ONE_B, 4, micro_batches, chunks=2, send=0.01) for micro_batches in (8, 64)
    )
    assert many.sends_s == pytest.approx(few.sends_s)
    one_by_one = timed(PipelineSchedule.ONE_F_ONE_B, 4, 64, send=0.01)
    assert one_by_one.sends_s > 5 * many.sends_s  # who has no work ahead waits for every send


def test_zero_bubble_is_that_of_its_paper() -> None:
    """ZB-H1: (p - 1) (F + B - W), where B is the gradient of inputs alone."""
    time = timed(PipelineSchedule.ZERO_BUBBLE, 4, 16)
    inputs = BACKWARD - WEIGHTS
    assert time.bubble_s == pytest.approx(3 * (FORWARD + inputs - WEIGHTS))
    assert time.bubble_s < timed(PipelineSchedule.ONE_F_ONE_B, 4, 16).bubble_s


def test_a_heavier_last_stage_is_work_not_bubble() -> None:
    even, headed = timed(PipelineSchedule.ONE_F_ONE_B, 4, 16), timed(PipelineSchedule.ONE_F_ONE_B, 4, 16, head=0.6)
    assert headed.work_s - even.work_s == pytest.approx(16 * 0.6)
    assert headed.bubble_s == pytest.approx(even.bubble_s)


def test_rows_do_not_depend_on_each_other() -> None:
    names = ("stages", "chunks", "micro_batches", "schedule", "send_s")
    rows = [(1, 1, 4, 1, 0), (4, 1, 8, 0, 0.1), (4, 2, 8, 1, 0.1), (4, 1, 8, 2, 0.1), (2, 1, 8, 1, 0.0)]
    same = {
        "forward_s": FORWARD,
        "backward_s": BACKWARD,
        "weight_gradient_s": WEIGHTS,
        "head_forward_s": 0.1,
        "head_backward_s": 0.2,
        "head_weight_gradient_s": 0.0,
    }

    def stages(rows: Sequence[tuple[float, ...]]) -> Stages:
        given = {name: np.array(values, float) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
        return Stages(**given, **{name: np.full(len(rows), value) for name, value in same.items()})

    together = pipeline_time(stages(rows)).total_s
    alone = np.concatenate([pipeline_time(stages([row])).total_s for row in rows])
    assert together == pytest.approx(alone)


def test_micro_batches_that_the_first_stage_keeps() -> None:
    def kept(stages: int, micro_batches: int, schedule: PipelineSchedule, chunks: int = 1) -> float:
        return float(in_flight(Layout(pp=stages, chunks=chunks, schedule=schedule), micro_batches, 0))

    assert kept(4, 16, PipelineSchedule.ONE_F_ONE_B) == 4
    assert kept(4, 2, PipelineSchedule.ONE_F_ONE_B) == 2
    assert kept(4, 16, PipelineSchedule.GPIPE) == 16
    assert kept(4, 16, PipelineSchedule.ZERO_BUBBLE) == 4  # ZB-H1 keeps no more than 1F1B
    assert kept(4, 16, PipelineSchedule.ONE_F_ONE_B, chunks=2) == (2 * 3 + 4 + 1) / 2  # Megatron-LM's warm-up
    assert kept(1, 16, PipelineSchedule.GPIPE) == 1
