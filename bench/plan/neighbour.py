"""What a table of measured runs would predict: the step of the most similar run, scaled by FLOPs.

Beside the error of the model of step time, on the same runs and with the same runs left out, it says what the model is
worth: one that is no better than this could be replaced by the table.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.plan.folds import Fold, folds
from bench.plan.predicted_steps import usual
from bench.plan.rows import Numbers
from bench.plan.training import Runs
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.plan.train.search.plan_trust import Situation

# How far apart runs are that differ in kind, in doublings of a number: the software first, then the machine.
OTHER_STACK, OTHER_MACHINE, OTHER_FORMAT, OTHER_KIND = 32.0, 16.0, 8.0, 16.0
ROWS_AT_ONCE = 256
Places = NDArray[np.intp]


def neighbour_logs(runs: Runs, axis: Situation) -> Numbers:
    """Logarithm of measured over predicted, per run; NaN where it has no fold of this axis."""
    logs = np.full(len(runs), np.nan)
    for fold in _between(runs) if axis is Situation.LAYOUT else folds(runs):
        if fold.axis is axis and fold.scored.any():
            known = np.flatnonzero(~fold.left_out & ~runs.held_out & usual(runs))
            logs[fold.scored] = nearest_logs(runs, np.flatnonzero(fold.scored), known)
    return logs


def _between(runs: Runs) -> Iterator[Fold]:
    """Layouts between those that were fitted to."""
    scored, nothing = runs.held_out & usual(runs), np.zeros(len(runs), np.bool_)
    yield Fold(axis=Situation.LAYOUT, predicted_as="", scored=scored, left_out=nothing)


def nearest_logs(runs: Runs, asked: Places, known: Places) -> Numbers:
    """The nearest of some runs has the same share of the peak as the run that is asked for."""
    numbers, kinds = _numbers(runs), _kinds(runs)
    least_s = _least_s(runs)
    logs = []
    for start in range(0, len(asked), ROWS_AT_ONCE):
        rows = asked[start : start + ROWS_AT_ONCE]
        apart = np.abs(numbers[rows, None, :] - numbers[None, known, :]).sum(axis=2)
        for column, far in kinds:
            apart += far * (column[rows, None] != column[None, known])
        nearest = known[np.argmin(apart, axis=1)]
        told_s = least_s[rows] * runs.measured_s[nearest] / least_s[nearest]
        logs.append(np.log(runs.measured_s[rows] / told_s))
    return np.concatenate(logs)


def _numbers(runs: Runs) -> Numbers:
    """In doublings."""
    model, batch, layout = runs.model, runs.batch, runs.layout
    columns = (
        model.layers, model.hidden, batch.sequence, layout.tp, layout.pp, layout.cp, np.maximum(layout.ep, 1),
        layout.dp, layout.micro_batch, np.asarray(batch.sequences) / layout.dp,
    )  # fmt: skip
    numbers = np.log2(np.stack([np.broadcast_to(column, len(runs)) for column in columns], axis=1))
    other = (layout.recompute, layout.zero)
    return np.concatenate([numbers, np.stack([np.asarray(column, np.float64) for column in other], axis=1)], axis=1)


def _kinds(runs: Runs) -> tuple[tuple[NDArray[Any], float], ...]:
    return (
        (runs.stacks, OTHER_STACK),
        (runs.machines, OTHER_MACHINE),
        (runs.formats, OTHER_FORMAT),
        (runs.sparse, OTHER_KIND),
    )


def _least_s(runs: Runs) -> Numbers:
    """Of the FLOPs that the model needs, at the peak of all devices."""
    tokens = runs.batch.sequence * runs.batch.sequences
    forward = forward_flops(runs.model, tokens, runs.batch.sequence, Pairs.SEEN).total
    backward = backward_flops(runs.model, tokens, runs.batch.sequence, Pairs.SEEN, flash=0).total
    return np.asarray((forward + backward) / (runs.bare.peak_flops_per_s * runs.devices), np.float64)
