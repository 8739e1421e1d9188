"""The closed forms of a step, and its simulation piece by piece, say the same: for 500 layouts, each within 2 %."""

import random
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from redline.hardware.catalogue import find
from redline.model.huggingface import known_model
from redline.plan.train.layout import Batch
from redline.plan.train.search.space import Space, layouts
from redline.plan.train.simulation.pass_work import EventKind
from redline.plan.train.simulation.predicted import simulate
from redline.plan.train.stacks import rates_of
from redline.plan.train.step_cost import rows_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import StepCosts, of_row, step_costs
from redline.plan.train.training_choices import PipelineSchedule

SEED = 7
# Models with even and uneven stages, small and large heads, with and without experts.
MODELS = ("llama-3.1-8b", "llama-3.1-405b", "gemma-2-27b", "mixtral-8x7b", "deepseek-v3", "gpt2-xl")
JOBS = ((16, 64, 4096), (256, 1024, 8192))  # devices, sequences, tokens of each
MACHINES = ("H100-SXM5-80GB", "A100-SXM4-80GB")
MOST_PASSES = 600  # through layers, of all stages and micro-batches: larger steps take long to simulate


def difference(given: StepCosts[float]) -> float:
    """Closed form over simulation, less 1."""
    column = StepCosts(**{field.name: np.array([getattr(given, field.name)], float) for field in fields(StepCosts)})
    return float(step_time(column).step_s[0]) / simulate(given).step_s - 1


def of_models(each: int) -> list[StepCosts[float]]:
    """Costs of layouts that a search would look at, over all schedules, ZeRO stages and ways to split."""
    rng = np.random.default_rng(SEED)
    found = []
    for name in MODELS:
        model = known_model(name)
        for (devices, sequences, tokens), machine in zip(JOBS, MACHINES, strict=True):
            batch = Batch(sequence=tokens, sequences=sequences)
            space = Space(devices=devices, fixed={"schedule": (0, 1, 2)})
            parts = step_costs(model, batch, layouts(model, batch, space), rates_of(find(machine)))
            small = np.flatnonzero(parts.micro_batches * parts.layers <= MOST_PASSES)
            chosen = rng.choice(small, min(each, len(small)), replace=False)
            found += [of_row(rows_of(parts, chosen), row) for row in range(len(chosen))]
    return found


def made_up(rng: random.Random) -> StepCosts[float]:
    """Costs of no model, in ratios that occur."""
    stages, schedule = (
        rng.choice((1, 2, 3, 4, 8)),
        rng.choice((PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZERO_BUBBLE)),
    )
    chunks = rng.choice((1, 2)) if schedule == PipelineSchedule.ONE_F_ONE_B and stages > 1 else 1
    micro_batches = stages * rng.choice((1, 2, 3)) if chunks > 1 else rng.choice((1, 2, 4, 6, 12))
    layers, shards = chunks * rng.choice((4, 6, 8)), rng.random() < 0.3
    forward = rng.uniform(1e-3, 10e-3)

    def sometimes(low: float, high: float) -> float:
        return rng.choice((0.0, forward * rng.uniform(low, high)))

    tensor, context, expert, head = sometimes(0, 0.5), sometimes(0, 0.2), sometimes(0, 0.5), sometimes(0.2, 2)
    backward, reduced = forward * rng.uniform(1.8, 2.6), 0.0 if shards else layers * sometimes(0, 2)
    values: dict[str, float] = {
        "stages": stages, "chunks": chunks, "micro_batches": micro_batches, "schedule": schedule,
        "layers_per_stage": layers, "layers_last_stage": layers, "layers": stages * layers,
        "forward_s": forward, "backward_s": backward, "weight_gradient_s": backward * rng.uniform(0.35, 0.5),
        "recompute_s": rng.choice((0.0, 0.15, 1.0)) * forward,
        "host_forward_s": sometimes(0, 1.3), "host_backward_s": sometimes(0, 2.6),
        "tensor_forward_s": tensor, "tensor_backward_s": 2 * tensor, "tensor_sent_s": tensor,
        "context_forward_s": context, "context_backward_s": 2 * context, "ring_s": context, "attention_s": 0.0,
        "expert_forward_s": expert, "expert_backward_s": expert, "expert_sent_s": expert,
        "gather_s": shards * forward * rng.uniform(0, 0.8), "scatter_s": shards * forward * rng.uniform(0, 0.8),
        "head_forward_s": head, "head_backward_s": 2 * head, "host_micro_batch_s": sometimes(0, 0.3),
        "send_s": sometimes(0, 0.3) if stages > 1 else 0.0,
        "reduce_s": reduced, "broadcast_s": rng.choice((0.0, reduced / 2)),
        "overlap": rng.choice((1.0, rng.uniform(0.5, 1))),
        "optimizer_s": sometimes(0, 3), "offload_s": sometimes(0, 3), "host_step_s": sometimes(0, 1),
    }  # fmt: skip
    return StepCosts(**values)


def test_closed_forms_are_within_2_percent_of_the_simulation_on_500_layouts() -> None:
    rng = random.Random(SEED)
    of_real = of_models(21)
    every = of_real + [made_up(rng) for _ in range(500 - len(of_real))]
    assert len(every) == 500
    differences = np.abs([difference(each) for each in every])
    worst = every[int(differences.argmax())]
    assert differences.max() <= 0.02, worst
    assert np.median(differences) <= 1e-4  # most are exact
    kinds = {(int(each.schedule), each.chunks > 1, each.gather_s > 0) for each in every if each.stages > 1}
    assert len(kinds) == 8, "all schedules, with and without ZeRO-3"


def test_without_a_pipeline_everything_follows_each_other() -> None:
    plain = {field.name: 0.0 for field in fields(StepCosts)} | {
        "stages": 1, "chunks": 1, "micro_batches": 3, "schedule": 1, "layers": 4, "layers_per_stage": 4,
        "layers_last_stage": 4, "forward_s": 1.0, "backward_s": 2.0, "head_forward_s": 0.5, "optimizer_s": 0.25,
        "overlap": 1.0,
    }  # fmt: skip
    assert simulate(StepCosts(**plain)).step_s == pytest.approx(3 * (4 * 3.0 + 0.5) + 0.25)


def test_a_stage_never_computes_two_things_at_once() -> None:
    rng = random.Random(3)
    for given in (made_up(rng) for _ in range(60)):
        for events in simulate(given).stages:
            kernels = sorted((each.start_s, each.end_s) for each in events if each.activity <= EventKind.EXPERT)
            assert all(end <= start + 1e-12 for (_, end), (start, _) in pairwise(kernels))


def test_the_last_stage_computes_nothing_forward_before_it_has_arrived() -> None:
    rng = random.Random(4)
    for given in (made_up(rng) for _ in range(60)):
        last = simulate(given).stages[-1]
        if given.stages == 1 or given.chunks > 1 or not given.send_s:
            continue
        arrived = {each.micro_batch: each.end_s for each in last if each.activity is EventKind.RECEIVE}
        forwards = [each for each in last if each.activity is EventKind.FORWARD]
        assert len(arrived) == given.micro_batches
        assert all(each.start_s >= arrived[each.micro_batch] - 1e-12 for each in forwards)


def test_layers_taken_together_take_as_long() -> None:
    rng = random.Random(5)
    for given in (made_up(rng) for _ in range(40)):
        if not given.gather_s and not given.reduce_s:
            together = simulate(given, layers_together=True)
            assert together.step_s == pytest.approx(simulate(given).step_s)
            assert sum(map(len, together.stages)) < sum(map(len, simulate(given).stages))
