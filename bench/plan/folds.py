"""Which published runs are left out of a fit together, so that nothing like them is known when they are predicted.

Odd and even ids say little: nearly every run has a sibling of the other kind, in another layout. Here whole groups
are left out: of a stack, its models, its numbers of GPUs and its types of GPU; a type of GPU from all stacks; a stack;
and a source. Where a stack has many groups, those of a fold are left out together, which is stricter than one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.plan.predicted_steps import usual
from bench.plan.rows import Mask
from bench.plan.training import Runs
from redline.model.model import Model
from redline.plan.train.search.plan_trust import SHAPE, Situation, chip_of
from redline.plan.train.stacks import DEFAULT_STACK

Texts = NDArray[np.str_]
# At most so many fits of a stack per axis.
MOST_FOLDS = 6
# Layouts have nothing in common but their fit: any parts will do.
ANY = 10


@dataclass(frozen=True, kw_only=True)
class Fold:
    """Some runs of one stack that are predicted from the others."""

    axis: Situation
    predicted_as: str
    """The stack whose constants predict them: their own, or usual software where it has no other runs."""
    scored: Mask
    """Runs to predict."""
    left_out: Mask
    """Runs that no constant may have been fitted to: these and, of some axes, others."""


def groups(runs: Runs, axis: Situation) -> Texts:
    """The group of every run. Two runs of a group are never on both sides of a fold."""
    if axis is Situation.MODEL:
        return shapes(runs)
    if axis is Situation.GPUS:
        return np.char.zfill(runs.devices.astype(np.int64).astype(str), 6)
    if axis in (Situation.GPU, Situation.GPU_ANYWHERE):
        return chips(runs)
    if axis is Situation.LAYOUT:
        return np.char.mod("%d", np.arange(len(runs)) % ANY)
    return runs.stacks if axis is Situation.STACK else runs.sources


def chips(runs: Runs) -> Texts:
    """Types of GPU."""
    return np.array([chip_of(name) for name in runs.machines])


def shapes(runs: Runs) -> Texts:
    """As `shape_of` names them."""
    return shapes_of(runs.model)


def shapes_of(models: Model) -> Texts:
    """Of a column of models."""
    columns = (np.round(getattr(models, name)).astype(np.int64).astype(str) for name in SHAPE)
    return np.array(["/".join(parts) for parts in zip(*columns, strict=True)])


def folds(runs: Runs) -> Iterator[Fold]:
    """Of every axis. What nothing is left to predict from is not among them: a stack with one model has no fold of
    models, as that would be a stack left out.
    """
    for name in sorted(set(runs.stacks.tolist())):
        own = runs.stacks == name
        for axis in (Situation.MODEL, Situation.GPUS, Situation.GPU):
            for left_out in _parts(groups(runs, axis), own):
                yield Fold(axis=axis, predicted_as=name, scored=left_out & usual(runs), left_out=left_out)
        for left_out in _parts(chips(runs), own):
            everywhere = np.isin(chips(runs), np.unique(chips(runs)[left_out]))
            yield Fold(
                axis=Situation.GPU_ANYWHERE, predicted_as=name, scored=left_out & usual(runs), left_out=everywhere
            )
        yield Fold(axis=Situation.STACK, predicted_as=DEFAULT_STACK, scored=own & usual(runs), left_out=own)
    yield from _of_sources(runs)


def _parts(names: Texts, own: Mask) -> Iterator[Mask]:
    """The groups of a stack, dealt to folds; none where it has a single one."""
    distinct = np.unique(names[own])
    count = min(len(distinct), MOST_FOLDS)
    if count > 1:
        for number in range(count):
            yield own & np.isin(names, distinct[number::count])


def _of_sources(runs: Runs) -> Iterator[Fold]:
    for source in np.unique(runs.sources):
        left_out = runs.sources == source
        for name in np.unique(runs.stacks[left_out]):
            own = runs.stacks == name
            yield Fold(
                axis=Situation.SOURCE,
                predicted_as=str(name) if (own & ~left_out).any() else DEFAULT_STACK,
                scored=left_out & own & usual(runs),
                left_out=left_out,
            )
