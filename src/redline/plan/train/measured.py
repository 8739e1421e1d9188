"""A measured step of the job that is planned: constants fitted to it, and how far plans from it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column, Model
from redline.plan.accuracy import accuracy_of
from redline.plan.train.layout import Batch, Layout, frozen
from redline.plan.train.stacks import DEFAULT_STACK, Rates, SoftwareStack, stack, stack_names, with_stack
from redline.plan.train.step_cost import StepTime
from redline.plan.train.time.layer import head_forward_s, layer_times
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import StepCosts, step_costs
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.plan.train.workload import Transformer, Workload

# --- trust ------------------------------------------------------------------------------------------------------------
# It comes from published jobs of several layouts: one row stands for the measured step, and the others are predicted
# from it. Their models were left out of the constants. `bench/plan/score_measured.py` scores them.


EVERY = "all"


@dataclass(frozen=True, kw_only=True)
class JobSpread:
    """Deviations of the logarithm of measured over predicted steps, with the stack's own constants."""

    job: float
    """Of one job from others of the stack."""
    layout: float
    """Of one layout of a job from others of it."""


@dataclass(frozen=True, kw_only=True)
class AnchoredAccuracy:
    """How well other layouts of a job were predicted from one measured step."""

    stack: str
    """Whose jobs these are; "all" where the stack has too few."""
    jobs: int
    pairs: int
    """A measured layout and a predicted one."""
    median: float
    """Of absolute errors, as are the next two; every predicted run counts the same."""
    p90: float
    median_without: float
    """Predicted from the constants alone."""
    p90_without: float
    low: float
    """Eight of ten measured steps lie between these two multiples of the predicted one."""
    high: float


def job_spread(stack: str) -> JobSpread:
    """That of all stacks where one has too few jobs."""
    spreads: Mapping[str, Mapping[str, float]] = accuracy_of("measured")["spreads"]
    own = spreads.get(stack, spreads[EVERY])
    return JobSpread(job=own["job"], layout=own["layout"])


def anchored_accuracy(stack: str) -> AnchoredAccuracy:
    """Of a stack. Of unknown software it is that of stacks whose constants were not used. The interval is no narrower
    than that of all stacks, as half of one stack's jobs are few.
    """
    scored: Mapping[str, Mapping[str, Any]] = accuracy_of("measured")["scored"]
    name = stack if stack in scored else EVERY
    own, every = scored[name], scored[EVERY]
    widest = {"low": min(own["low"], every["low"]), "high": max(own["high"], every["high"])}
    return AnchoredAccuracy(stack=name, **{**own, **widest})


# --- a measured step --------------------------------------------------------------------------------------------------


STEP = "step"
COMPUTE, OPTIMIZER, HOST, EXPOSED, WAITING = "compute", "optimizer", "host", "communication", "waiting"
ACCOUNTS = (COMPUTE, OPTIMIZER, HOST, EXPOSED, WAITING)
TRAFFIC, MATMULS, ATTENTION = "traffic", "matmuls", "attention"
"""All communication, hidden or not; products of matrices; attention. They are parts of accounts, or beside them."""
PARTS = (TRAFFIC, MATMULS, ATTENTION)


@dataclass(frozen=True, kw_only=True)
class MeasuredTraining:
    """One step of a job that ran."""

    batch: Batch
    layout: Layout
    devices: int
    step_s: float
    accounts: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the step by ACCOUNTS and PARTS, as far as they are known; none where the step alone is."""
    memory_bytes: float = 0.0
    """Peak on the fullest device; 0 where it is not known."""
    source: str = ""
    """The recording; "" where numbers were given."""
    steps: int = 1
    """That were recorded; times are means over them."""
    inferred: tuple[str, ...] = ()
    """What was read from the recording instead of being given."""
    unseen: tuple[str, ...] = ()
    """What the recording cannot tell, and why, in a few words each."""


def predicted_accounts(time: StepTime, costs: StepCosts[Column]) -> dict[str, Column]:
    """The same of predicted steps, with the traffic of data parallelism and tensor parallelism as a whole."""
    return {
        COMPUTE: time.compute_s + time.recompute_s + time.head_s,
        OPTIMIZER: time.optimizer_s + time.offload_s,
        HOST: time.host_s,
        EXPOSED: time.tensor_s + time.context_s + time.expert_s + time.pipeline_s + time.gather_s + time.reduce_s,
        WAITING: time.bubble_s,
        TRAFFIC: _traffic_s(costs),
    }


def predicted_kernels(model: Model, batch: Batch, layout: Layout, rates: Rates) -> dict[str, Column]:
    """Products of matrices and attention of a step, on the fullest stage, with what is computed again."""
    costs, times = step_costs(model, batch, layout, rates), layer_times(model, batch, layout, rates)
    logits_s = head_forward_s(model, batch, layout, replace(rates, logit_passes=0.0))
    full = np.where(layout.recompute == Recompute.FULL, 1.0, 0.0)
    again = np.where(layout.recompute == Recompute.NONE, 0.0, 1.0)
    passes, products = costs.micro_batches * costs.layers_per_stage, 3.0 - frozen(layout)
    attention_s = passes * ((1 + again) * times.attention_s + times.attention_backward_s)
    matmuls_s = passes * (products + full) * times.matmuls_s + costs.micro_batches * products * logits_s
    return {MATMULS: matmuls_s, ATTENTION: attention_s}


def _traffic_s(costs: StepCosts[Column]) -> Column:
    """Traffic of the fullest stage, hidden or not: both passes alike, weights gathered twice in each micro-batch."""
    passes = costs.micro_batches * costs.layers_per_stage
    inside = 2 * (costs.tensor_sent_s + costs.ring_s + costs.expert_sent_s) + 2 * costs.gather_s + costs.scatter_s
    chunks = np.where(costs.schedule == PipelineSchedule.ONE_F_ONE_B, costs.chunks, 1.0)
    sends = np.where(costs.stages > 1, 2 * costs.micro_batches * chunks, 0.0)
    traffic: Column = passes * inside + sends * costs.send_s + costs.reduce_s + costs.broadcast_s
    return traffic


# --- constants that follow the measurement ----------------------------------------------------------------------------
# Every constant starts where the stack has it, with a normal prior on its logarithm (of a share: on its log-odds)
# that is as wide as stacks differ in it. One direction is common to all: a job may run everything faster or slower
# than others of its stack. What is measured is the step, and its accounts where they were recorded. The most probable
# constants follow by Gauss-Newton: a constant that the measurement does not depend on stays where it is, exactly.


Numbers = NDArray[np.float64]

# What a measurement may move: shares of the machine's rates, work per token, times of the host and of links, overlaps.
RATES = ("sustained", "attention", "moved", "node_share", "nic_share", "gather_share", "expert_efficiency")
WORK = ("attention_half", "hidden_passes", "logit_passes", "accumulate_bytes", "optimizer_bytes", "expert_passes")
TIMES = (
    "host_layer_s", "host_backward", "host_collective_s", "host_micro_batch_s", "host_step_s", "host_send_s",
    "host_expert_s", "node_latency_s", "across_latency_s",
)  # fmt: skip
OVERLAPS = ("overlap", "update_overlap", "tensor_overlap", "expert_overlap")
CONSTANTS = (*RATES, *WORK, *TIMES, *OVERLAPS)

# Of logarithms. Chosen on one half of the published models, scored on the other: bench/plan/score_measured.py.
COMMON = 0.3
"""Of what a job differs from others of its stack, the share in everything alike."""
USUAL_JOB = 0.1
"""Constants differ among jobs as they do among stacks where jobs of the stack differ by this much."""
LEAST_DEVIATION, MOST_DEVIATION = 0.02, 0.3
ACCOUNT_NOISE = 0.02
"""Of a recorded account, as a share of the step."""
UNKNOWN_MACHINE = 4.0
"""Priors are so many times as wide on a machine that no stack was measured on."""
LEAST_SHARE = 0.02
ROUNDS = 12
LARGEST_MOVE = 1.0
DIFFERENCE, ENOUGH = 1e-3, 1e-3
TOLD = 0.05
"""A constant is named as told where its prior narrows by this share."""


@dataclass(frozen=True, kw_only=True)
class MovedConstant:
    """One constant before and after a measurement."""

    name: str
    before: float
    after: float
    told: float
    """By what share the measurement narrows its prior: near 0 it moved with others, not by itself."""


@dataclass(frozen=True, kw_only=True)
class FittedJob:
    """A measured step, and what follows from it."""

    measured: MeasuredTraining
    software: SoftwareStack
    moved: tuple[MovedConstant, ...]
    before: Mapping[str, float]
    """Predicted accounts of the measured layout with the stack's own constants, and of the STEP."""
    after: Mapping[str, float]
    """The same with the fitted ones."""
    accuracy: AnchoredAccuracy | None
    """Of such predictions; None on a machine that no stack was measured on."""

    @property
    def spread(self) -> tuple[float, float]:
        """The 80 % interval of the step time, as multiples of the predicted one. Where none was scored, that of
        unknown software on known machines, which is the widest.
        """
        known = self.accuracy or anchored_accuracy(DEFAULT_STACK)
        return known.low, known.high


def fit_to_measured(
    measured: MeasuredTraining,
    workload: Workload,
    bare: Rates,
    usual: SoftwareStack,
    spread: JobSpread,
    *,
    stack_name: str = DEFAULT_STACK,
    known_machine: bool = True,
) -> FittedJob:
    """`bare` is what the machine alone does, in the number format of the run; `usual` the constants to start from, of
    `stack_name`, and `spread` how far jobs and layouts lie from them.
    """
    problem = _Problem(measured, workload, bare, usual, spread.layout)
    job = spread.job * (1.0 if known_machine else UNKNOWN_MACHINE)
    alone, common = _deviations() * job / USUAL_JOB, COMMON * job
    prior = np.diag(alone**2) + common**2 * np.outer(_SLOWER, _SLOWER)
    start = np.array([_place(name, float(getattr(usual, name))) for name in CONSTANTS])
    point, narrowed = _most_probable(problem, start, prior)
    before, after = problem.accounts(start), problem.accounts(point)
    return FittedJob(
        measured=measured,
        software=problem.software(point),
        moved=tuple(_moved(start, point, narrowed)),
        before=before,
        after=after,
        accuracy=anchored_accuracy(stack_name) if known_machine else None,
    )


@dataclass(frozen=True)
class _Problem:
    measured: MeasuredTraining
    workload: Workload
    bare: Rates
    usual: SoftwareStack
    layout_noise: float

    @property
    def noise(self) -> Numbers:
        return np.array([self.layout_noise, *(ACCOUNT_NOISE for _ in self._told)])

    @property
    def _told(self) -> list[str]:
        return [name for name in (*ACCOUNTS, *PARTS) if name in self.measured.accounts]

    @property
    def _tells_kernels(self) -> bool:
        return MATMULS in self.measured.accounts or ATTENTION in self.measured.accounts

    def software(self, point: Numbers) -> SoftwareStack:
        """Of one point, or of one in every row."""
        return replace(self.usual, **{name: _value(name, point[..., place]) for place, name in enumerate(CONSTANTS)})

    def accounts(self, point: Numbers) -> dict[str, float]:
        steps, accounts = self._predicted(point[None, :])
        return {STEP: float(steps[0]), **{name: float(np.ravel(each)[0]) for name, each in accounts.items()}}

    def missing(self, points: Numbers) -> Numbers:
        """What the prediction lacks of the measurement, per row: of the step its logarithm, of accounts shares."""
        steps, accounts = self._predicted(points)
        whole = [np.log(self.measured.step_s / steps)]
        parts = [(self.measured.accounts[name] - accounts[name]) / self.measured.step_s for name in self._told]
        return np.stack([*whole, *parts], axis=1)

    def _predicted(self, points: Numbers) -> tuple[Numbers, dict[str, Numbers]]:
        rates = with_stack(self.bare, self.software(points))
        costs = self.workload.step_costs(self.measured.batch, self.measured.layout, rates)
        time = step_time(costs)
        accounts = predicted_accounts(time, costs)
        if isinstance(self.workload, Transformer) and (len(points) == 1 or self._tells_kernels):
            accounts |= predicted_kernels(self.workload.model, self.measured.batch, self.measured.layout, rates)
        rows = len(points)
        return np.broadcast_to(time.step_s, rows), {
            name: np.broadcast_to(each, rows) for name, each in accounts.items()
        }


def _most_probable(problem: _Problem, start: Numbers, prior: Numbers) -> tuple[Numbers, Numbers]:
    """The point, and the deviations that are left as shares of those of the prior."""
    point, noise = start, np.diag(problem.noise**2)
    posterior = prior
    for _ in range(ROUNDS):
        steps = np.eye(len(point)) * DIFFERENCE
        rows = problem.missing(np.concatenate([point[None, :], point + steps]))
        slopes = (rows[0] - rows[1:]).T / DIFFERENCE  # of what is predicted: one row per measured number
        gain = prior @ slopes.T @ np.linalg.inv(slopes @ prior @ slopes.T + noise)
        target = start + gain @ (rows[0] + slopes @ (point - start))
        move = np.clip(target - point, -LARGEST_MOVE, LARGEST_MOVE)
        posterior = prior - gain @ slopes @ prior
        point = point + move
        if np.max(np.abs(move)) < ENOUGH:
            break
    return point, np.sqrt(np.maximum(np.diag(posterior), 0.0) / np.diag(prior))


def _moved(start: Numbers, point: Numbers, left: Numbers) -> list[MovedConstant]:
    """Those that the measurement tells, the best told first."""
    moved = [
        MovedConstant(
            name=name,
            before=float(_value(name, start[place])),
            after=float(_value(name, point[place])),
            told=float(1 - left[place]),
        )
        for place, name in enumerate(CONSTANTS)
    ]
    return sorted((each for each in moved if each.told > TOLD), key=lambda each: -each.told)


# --- priors -----------------------------------------------------------------------------------------------------------

# Where everything takes longer: rates fall, times rise. Work per token and overlaps have no part in it, because rates
# of memory and of links say it already.
_SLOWER = np.array([-1.0 if name in RATES[:-1] else 1.0 if name in TIMES else 0.0 for name in CONSTANTS])


@cache
def _deviations() -> Numbers:
    """How far stacks differ in every constant."""
    rows = [
        [_place(name, float(getattr(software, name))) for name in CONSTANTS]
        for software in (stack(name, dtype="bf16") for name in stack_names())
    ]
    deviations = np.std(rows, axis=0)
    # The same for all stacks, as it is the machine's; told apart from the rate of attention by its sequence alone.
    deviations[CONSTANTS.index("attention_half")] = deviations[CONSTANTS.index("attention")]
    return np.asarray(np.clip(deviations, LEAST_DEVIATION, MOST_DEVIATION), np.float64)


def _place(name: str, value: float) -> float:
    if name not in OVERLAPS:
        return float(np.log(max(value, 1e-9)))
    share = min(max(value, LEAST_SHARE), 1 - LEAST_SHARE)
    return float(np.log(share / (1 - share)))


def _value(name: str, place: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-place)) if name in OVERLAPS else np.exp(place), np.float64)
