"""Published jobs that ran in several layouts: one step stands for a measured one, and the others follow from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from bench.plan.rows import Mask, Numbers
from bench.plan.training import Runs, Texts
from redline.model.model import Column
from redline.plan.train.layout import Layout
from redline.plan.train.measured import JobSpread, MeasuredTraining, fit_to_measured
from redline.plan.train.stacks import SoftwareStack, StackConstants, from_constants, with_stack
from redline.plan.train.step_cost import row_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs
from redline.plan.train.workload import Transformer

MOST_ANCHORS = 3
"""Of one job: sweeps have hundreds of layouts."""
_SCORED_SALT = "x"


@dataclass(frozen=True, kw_only=True)
class Anchored:
    """Pairs of runs of one job: from the step of the one, the other was predicted."""

    stacks: Texts
    jobs: Texts
    errors: Numbers
    """Logarithms of predicted over measured."""
    without: Numbers
    """The same of the constants alone."""
    weights: Numbers
    """Every predicted run weighs the same, from however many steps it was predicted."""


def jobs_of(runs: Runs) -> Texts:
    """The same model, machine, number format and stack; with adapters it is another job."""
    adapters = np.where(runs.adapters, "adapters", "")
    parts = zip(runs.stacks, runs.machines, runs.formats, runs.names, adapters, strict=True)
    return np.array(["|".join(map(str, part)) for part in parts])


def is_scored(names: Texts) -> Mask:
    """Half of the models: what is chosen by looking at data is chosen on the others."""
    return np.array([crc32((name + _SCORED_SALT).encode()) % 2 == 1 for name in names.tolist()], np.bool_)


def anchored(runs: Runs, constants: StackConstants, spread: JobSpread, seed: int = 0) -> Anchored:
    """Runs of one stack, predicted with these constants, and from a step of their job."""
    jobs, generator = jobs_of(runs), np.random.default_rng(seed)
    parts = []
    for job in np.unique(jobs):
        rows = np.flatnonzero(jobs == job)
        if len(rows) < 2:
            continue
        own = runs.where(np.isin(np.arange(len(runs)), rows))
        chosen = generator.permutation(len(own))[:MOST_ANCHORS]
        parts += [_pairs(own, int(at), constants, spread, str(job), len(chosen)) for at in chosen]
    return joined(parts)


def joined(parts: list[Anchored]) -> Anchored:
    names = Anchored.__dataclass_fields__
    return Anchored(
        **{name: np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0)]) for name in names}
    )


def log_errors(runs: Runs, software: SoftwareStack) -> Column:
    """Of constants that all of these runs share."""
    time = step_time(step_costs(runs.model, runs.batch, runs.layout, with_stack(runs.bare, software)))
    errors: Column = np.log(time.step_s / runs.measured_s)
    return errors


def _pairs(runs: Runs, at: int, constants: StackConstants, spread: JobSpread, job: str, anchors: int) -> Anchored:
    usual = from_constants(constants, str(runs.machines[at]), str(runs.formats[at]))
    layout = row_of(runs.layout, at)
    measured = MeasuredTraining(
        batch=row_of(runs.batch, at),
        layout=layout,
        devices=_devices(layout),
        step_s=float(runs.measured_s[at]),
    )
    fitted = fit_to_measured(measured, Transformer(row_of(runs.model, at)), row_of(runs.bare, at), usual, spread)
    others = runs.where(np.arange(len(runs)) != at)
    return Anchored(
        stacks=others.stacks,
        jobs=np.full(len(others), job),
        errors=log_errors(others, fitted.software),
        without=log_errors(others, usual),
        weights=np.full(len(others), 1 / anchors),
    )


def _devices(layout: Layout) -> int:
    return int(layout.dp * layout.tp * layout.pp * layout.cp)


# --- what follows -----------------------------------------------------------------------------------------------------


def spread_of(errors: Numbers, jobs: Texts) -> JobSpread:
    """From errors of constants alone: how far jobs lie from 0 in the middle, and layouts from the middle of their job.

    From the 80th percentile, as a few runs lie far off.
    """
    names, places, counts = np.unique(jobs, return_inverse=True, return_counts=True)
    middles = np.array([np.median(errors[places == place]) for place in range(len(names))])
    several = counts > 1
    return JobSpread(job=_deviation(middles[several]), layout=_deviation((errors - middles[places])[several[places]]))


def _deviation(errors: Numbers) -> float:
    return float(np.quantile(np.abs(errors), 0.8) / 1.28)


def scored(pairs: Anchored) -> Mapping[str, float]:
    """As it is written."""
    absolute, without = np.abs(np.expm1(pairs.errors)), np.abs(np.expm1(pairs.without))
    ratios = np.exp(-pairs.errors)
    figures = {
        "median": _quantile(absolute, pairs.weights, 0.5),
        "p90": _quantile(absolute, pairs.weights, 0.9),
        "median_without": _quantile(without, pairs.weights, 0.5),
        "p90_without": _quantile(without, pairs.weights, 0.9),
        "low": _quantile(ratios, pairs.weights, 0.1),
        "high": _quantile(ratios, pairs.weights, 0.9),
    }
    counts = {"jobs": len(np.unique(pairs.jobs)), "pairs": len(pairs.errors)}
    return {**counts, **{name: round(value, 3) for name, value in figures.items()}}


def within(pairs: Anchored, low: float, high: float) -> float:
    """The share of measured steps between these multiples of the predicted ones."""
    ratios = np.exp(-pairs.errors)
    return float(pairs.weights[(low <= ratios) & (ratios <= high)].sum() / pairs.weights.sum())


def _quantile(values: Numbers, weights: Numbers, share: float) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, share * sums[-1])])


def by_stack(pairs: Anchored) -> Iterator[tuple[str, Anchored]]:
    for stack in np.unique(pairs.stacks):
        yield str(stack), where(pairs, pairs.stacks == stack)


def where(pairs: Anchored, mask: Mask) -> Anchored:
    return Anchored(**{name: getattr(pairs, name)[mask] for name in Anchored.__dataclass_fields__})
