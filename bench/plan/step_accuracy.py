"""How far predicted step times lie from measured ones, on runs that were left out of the fit."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from bench.plan.intervals import covered
from bench.plan.predicted_steps import SWEEP, predicted, usual
from bench.plan.rows import Mask, Numbers
from bench.plan.training import Runs, expressed_runs, unexpressed_runs
from bench.plan.validation import Accuracy, Choice, ChoiceLoss, StepAccuracy
from redline.plan.train.memory.footprint import oom_probability
from redline.plan.train.memory.use import memory_use
from redline.plan.train.search.plan_trust import Situation
from redline.plan.train.search.search import by_speed
from redline.plan.train.step_cost import rows_of
from redline.plan.train.training_choices import ACCEPTED_CHANCE

MEGATRON = ("megatron-core", "megatron-bridge", "megatron-lm", "bigscience")
LEAST_GROUP = 5


def step_accuracy() -> StepAccuracy:
    """Held against the package's own measurements, in about a second."""
    runs = expressed_runs()
    scored = runs.where(runs.held_out & usual(runs))
    predicted_s, inside = predicted(scored).step_s, covered(Situation.LAYOUT)
    dense = ~scored.sparse & ~scored.narrow & ~scored.long & ~scored.adapters

    def score(name: str, mask: Mask) -> Accuracy:
        return _accuracy(name, scored.where(mask), predicted_s[mask], inside[mask])

    masks = {"experts": scored.sparse, "fewer bits": scored.narrow, "long": scored.long}
    left_out = Counter(unexpressed.reason for unexpressed in unexpressed_runs())
    return StepAccuracy(
        dense=score("dense", dense),
        megatron=score("megatron", dense & np.isin(scored.stacks, MEGATRON)),
        stacks=tuple(score(str(name), scored.stacks == name) for name in np.unique(scored.stacks)),
        kinds=tuple(score(name, mask) for name, mask in masks.items()),
        everything=score("everything", np.ones(len(scored), np.bool_)),
        choice=choice_loss(runs.where(runs.stacks == SWEEP)),
        expressible=len(runs) / (len(runs) + left_out.total()),
        siblings=_siblings(scored, runs.where(~runs.held_out)),
        reasons=tuple(left_out.most_common()),
    )


def _siblings(scored: Runs, fitted: Runs) -> float:
    """Mostly in another layout: 13 % are the same configuration."""
    known = set(_configurations(fitted))
    return float(np.mean([configuration in known for configuration in _configurations(scored)]))


def _configurations(runs: Runs) -> list[tuple[str, ...]]:
    parts = (runs.stacks, runs.machines, runs.formats, runs.names)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def choice_loss(runs: Runs) -> ChoiceLoss:
    """As a search chooses among those that are unlikely to run out of memory, or else among all."""
    choices = tuple(_choices(runs, predicted(runs).step_s))
    lost = [choice.lost for choice in choices]
    return ChoiceLoss(choices=choices, median=float(np.median(lost)), ninetieth=float(np.quantile(lost, 0.9)))


def _chance(runs: Runs) -> Numbers:
    """Of running out of memory."""
    peak_bytes = memory_use(runs.model, runs.batch, runs.layout, SWEEP).peak_bytes
    return oom_probability(peak_bytes, runs.bare.device_bytes, SWEEP)


def _choices(runs: Runs, told_s: Numbers) -> Iterator[Choice]:
    chance = _chance(runs)
    keys = sorted(set(zip(runs.names.tolist(), runs.devices.tolist(), strict=True)))
    for model, devices in keys:
        mask = (runs.names == model) & (runs.devices == devices)
        measured_s = runs.measured_s[mask]
        if len(measured_s) >= LEAST_GROUP:
            fits = chance[mask] <= ACCEPTED_CHANCE
            layouts = rows_of(runs.layout, mask)
            first = by_speed(layouts, told_s[mask], chance[mask], fits | ~fits.any())[0]
            lost = 1 - measured_s.min() / measured_s[first]
            yield Choice(model=model, devices=int(devices), layouts=len(measured_s), lost=float(lost))


def _accuracy(name: str, runs: Runs, predicted_s: Numbers, inside: Mask) -> Accuracy:
    errors = predicted_s / runs.measured_s - 1
    return Accuracy(
        name=name,
        runs=len(runs),
        bias=float(np.median(errors)),
        median=float(np.median(np.abs(errors))),
        ninetieth=float(np.quantile(np.abs(errors), 0.9)),
        covered=float(np.mean(inside)),
    )
