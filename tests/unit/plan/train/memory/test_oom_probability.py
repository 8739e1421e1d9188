"""The chance of running out of memory, the interval, and layouts that cannot run at all."""

import numpy as np
import pytest

from redline.model.model import Model
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.memory.footprint import footprint, oom_probability, peak_interval
from redline.plan.train.memory.use import runnable

SMALL = Model(
    layers=16, hidden=2048, heads=32, kv_heads=32, head_dim=64, value_dim=64, ffn=8192, gated=1, vocab=131072, tied=1,
    attention_layers=16, dense_layers=16,
)  # fmt: skip
BATCH = Batch(sequence=4096, sequences=256)


def test_the_chance_grows_with_the_peak() -> None:
    chances = oom_probability(np.linspace(1e9, 200e9, 200), 80e9, "nanotron")
    assert (np.diff(chances) >= 0).all()
    assert chances[0] < 1e-6
    assert chances[-1] > 1 - 1e-6


def test_a_job_as_large_as_the_device_is_a_gamble() -> None:
    assert 0.2 < oom_probability(80e9, 80e9, "nanotron") < 0.6


@pytest.mark.parametrize("stack", ["nanotron", "never heard of"])
def test_the_interval_is_around_the_peak(stack: str) -> None:
    low, high = peak_interval(40e9, stack)
    assert 25e9 < low < 40e9 < high < 65e9


@pytest.mark.parametrize("stack", ["default", "megatron-core", "fsdp"])
def test_a_stack_whose_memory_nobody_measured_is_less_sure(stack: str) -> None:
    """Measured peaks are above what the book says of them, by up to a half."""
    assert peak_interval(40e9, stack)[1] > 1.2 * peak_interval(40e9, "nanotron")[1]
    assert oom_probability(68e9, 80e9, stack) > 0.2 > oom_probability(68e9, 80e9, "nanotron")


@pytest.mark.parametrize(
    "layout",
    [
        Layout(tp=3),  # heads
        Layout(dp=64, micro_batch=8),  # more than the batch
        Layout(pp=16),  # a stage without blocks: the head weighs as much as four layers
        Layout(dp=64, pp=8, micro_batch=1),  # 4 micro-batches for 8 stages
    ],
)
def test_what_cannot_run_is_refused(layout: Layout) -> None:
    assert not runnable(SMALL, BATCH, layout, footprint("nanotron"))


@pytest.mark.parametrize("layout", [Layout(), Layout(pp=8), Layout(tp=32), Layout(dp=32, pp=8)])
def test_what_can_run_is_not(layout: Layout) -> None:
    assert runnable(SMALL, BATCH, layout, footprint("nanotron"))


def test_cut_by_layers_every_stage_needs_one() -> None:
    assert runnable(SMALL, BATCH, Layout(pp=16), footprint(""))
    assert not runnable(SMALL, BATCH, Layout(pp=32), footprint(""))
