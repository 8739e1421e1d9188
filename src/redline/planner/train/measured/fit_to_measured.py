"""Constants of a software stack, moved as far as one measured step of the same job tells them.

Every constant starts where the stack has it, with a normal prior on its logarithm (of a share: on its log-odds) that is
as wide as stacks differ in it. One direction is common to all: a job may run everything faster or slower than others of
its stack. What is measured is the step, and its accounts where they were recorded. The most probable constants follow
by Gauss-Newton: a constant that the measurement does not depend on stays where it is, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from redline.planner.train.measured.measured_step import (
    ACCOUNTS,
    ATTENTION,
    MATMULS,
    PARTS,
    STEP,
    MeasuredTraining,
    predicted_accounts,
    predicted_kernels,
)
from redline.planner.train.measured.measured_trust import AnchoredAccuracy, JobSpread, anchored_accuracy
from redline.planner.train.stacks import DEFAULT_STACK, SoftwareStack, stack, stack_names, with_stack
from redline.planner.train.time.step import step_time
from redline.planner.train.training_rates import Rates
from redline.planner.train.transformer import Transformer
from redline.planner.train.workload import Workload

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

# Of logarithms. Chosen on one half of the published models, scored on the other: scripts/score_measured.py.
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
        """Of one point, with the step."""
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
