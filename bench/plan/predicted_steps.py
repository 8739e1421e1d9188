"""Predicted step times of the published runs, with the constants of the package or with others."""

from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from bench.plan.rows import Mask
from bench.plan.training import Runs
from redline.plan.train.stacks import Rates, SoftwareStack, StackConstants, from_constants, stack, with_stack
from redline.plan.train.step_cost import StepTime
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs

# Below this utilization, runs of nanotron's sweep are layouts that nobody would choose.
LEAST_UTILIZATION = 10.0
SWEEP = "nanotron"


def usual(runs: Runs) -> Mask:
    """Those that are scored: of nanotron's sweep, layouts that somebody might choose."""
    return np.asarray((runs.stacks != SWEEP) | (runs.utilization >= LEAST_UTILIZATION), np.bool_)


def predicted(runs: Runs, constants: Mapping[str, StackConstants] | None = None) -> StepTime:
    """The step of every run, by what it is spent on."""
    return step_time(step_costs(runs.model, runs.batch, runs.layout, rates(runs, constants)))


def rates(runs: Runs, constants: Mapping[str, StackConstants] | None = None) -> Rates:
    """Of every run: its machine under its stack, with the constants of the package where no others are given."""
    keys = list(zip(runs.stacks.tolist(), runs.machines.tolist(), runs.formats.tolist(), strict=True))
    kinds = sorted(set(keys))
    stacks = [
        stack(*kind) if constants is None else from_constants(constants[kind[0]], kind[1], kind[2]) for kind in kinds
    ]
    at = np.array([kinds.index(key) for key in keys])
    columns = {
        field.name: np.array([getattr(software, field.name) for software in stacks])[at]
        for field in fields(SoftwareStack)
    }
    return with_stack(runs.bare, SoftwareStack(**columns))
