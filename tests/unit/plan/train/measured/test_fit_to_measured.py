"""One measured step moves the constants that it tells, and no others."""

from dataclasses import replace

import numpy as np
import pytest

from redline.hardware.catalogue import find
from redline.model.huggingface import describe
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.measured import (
    ACCOUNTS,
    ATTENTION,
    COMPUTE,
    CONSTANTS,
    MATMULS,
    TRAFFIC,
    FittedJob,
    JobSpread,
    MeasuredTraining,
    fit_to_measured,
    predicted_accounts,
    predicted_kernels,
)
from redline.plan.train.stacks import SoftwareStack, machine_rates, stack, with_stack
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs
from redline.plan.train.workload import Transformer

MODEL = describe(layers=24, hidden=2048, heads=16, ffn=8192, vocab=50304)
BARE = machine_rates(find("H100-SXM5-80GB"), "bf16")
USUAL = stack("megatron-core", "H100-SXM5-80GB", "bf16")
BATCH = Batch(sequence=4096, sequences=64)
SPREAD = JobSpread(job=0.1, layout=0.05)
ALONE = Layout(dp=8, micro_batch=1)


def measured(layout: Layout, software: SoftwareStack, *, recorded: bool) -> MeasuredTraining:
    """A step as long as these constants make it."""
    rates = with_stack(BARE, software)
    costs = step_costs(MODEL, BATCH, layout, rates)
    time = step_time(costs)
    told = {**predicted_accounts(time, costs), **predicted_kernels(MODEL, BATCH, layout, rates)} if recorded else {}
    accounts = {name: float(np.ravel(amount)[0]) for name, amount in told.items()}
    return MeasuredTraining(
        batch=BATCH, layout=layout, devices=8, step_s=float(np.ravel(time.step_s)[0]), accounts=accounts
    )


def fitted(step: MeasuredTraining, spread: JobSpread = SPREAD) -> FittedJob:
    return fit_to_measured(step, Transformer(MODEL), BARE, USUAL, spread, stack_name="megatron-core")


def test_a_step_as_predicted_moves_nothing() -> None:
    found = fitted(measured(ALONE, USUAL, recorded=True))
    for name in CONSTANTS:
        share = min(max(getattr(USUAL, name), 0.02), 0.98) if "overlap" in name else getattr(USUAL, name)
        assert getattr(found.software, name) == pytest.approx(share, rel=1e-6), name


def test_the_share_that_a_step_moves_is_that_of_the_variances() -> None:
    """A job of one kind of cost, with one constant: prior variance over prior and noise, worked out by hand."""
    slower = replace(measured(ALONE, USUAL, recorded=False), step_s=1.2 * measured(ALONE, USUAL, recorded=False).step_s)
    told = [np.log(fitted(slower, JobSpread(job=0.1, layout=noise)).after["step"]) for noise in (1e-4, 0.05, 10.0)]
    before = np.log(fitted(slower).before["step"])
    assert told[0] - before == pytest.approx(np.log(1.2), rel=0.01)  # no noise: the step is given back
    assert told[2] - before == pytest.approx(0.0, abs=0.001)  # nothing but noise: the prior stays
    # Between the two: v / (v + noise^2) of the difference, where v follows from the almost noiseless prior.
    gains = [(each - before) / np.log(1.2) for each in told]
    weak = fitted(slower, JobSpread(job=0.1, layout=0.1)).after["step"]
    variance = 0.05**2 * gains[1] / (1 - gains[1])
    assert (np.log(weak) - before) / np.log(1.2) == pytest.approx(variance / (variance + 0.1**2), rel=0.05)


def test_recorded_accounts_tell_constants_apart() -> None:
    """Slow matmuls, a slow optimizer and slow links each move the constant that they depend on."""
    true = replace(USUAL, sustained=0.8 * USUAL.sustained, optimizer_bytes=1.5 * USUAL.optimizer_bytes)
    found = fitted(measured(ALONE, true, recorded=True), JobSpread(job=0.3, layout=0.1))
    assert found.software.sustained == pytest.approx(true.sustained, rel=0.03)
    assert found.after["step"] == pytest.approx(found.measured.step_s, rel=0.01)
    assert found.software.attention == pytest.approx(USUAL.attention, rel=0.05)
    assert found.software.host_layer_s == pytest.approx(USUAL.host_layer_s, rel=0.05)


def test_another_layout_follows() -> None:
    """Constants that one layout tells make the step of another one right, as far as it depends on them."""
    true = replace(USUAL, sustained=0.8 * USUAL.sustained, node_share=0.6 * USUAL.node_share)
    split = Layout(dp=2, tp=4, sequence_parallel=1, micro_batch=1)
    found = fitted(measured(split, true, recorded=True), JobSpread(job=0.3, layout=0.1))
    for layout in (ALONE, Layout(dp=4, tp=2, sequence_parallel=1, micro_batch=2)):
        errors = [
            abs(measured(layout, software, recorded=False).step_s / measured(layout, true, recorded=False).step_s - 1)
            for software in (found.software, USUAL)
        ]
        assert errors[0] < 0.03 < errors[1]


def test_what_does_not_occur_is_not_moved() -> None:
    found = fitted(replace(measured(ALONE, USUAL, recorded=False), step_s=10.0))
    for name in ("expert_efficiency", "host_send_s", "across_latency_s", "tensor_overlap"):
        assert name not in [moved.name for moved in found.moved]


def test_accounts_add_up_to_the_step() -> None:
    step = measured(Layout(dp=2, tp=2, pp=2, micro_batch=1), USUAL, recorded=True)
    assert sum(step.accounts[name] for name in ACCOUNTS) == pytest.approx(step.step_s, rel=1e-9)
    assert step.accounts[MATMULS] + step.accounts[ATTENTION] < step.accounts[COMPUTE]
    assert step.accounts[TRAFFIC] > 0
