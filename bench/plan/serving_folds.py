"""Which published runs of serving are left out of a fit together: a model, a GPU, or a family of GPUs of an engine.

Odd and even ids say little of what was not measured: nearly every odd row has an even sibling with other traffic.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.plan.folds import Texts, shapes_of
from bench.plan.rows import Mask
from bench.plan.serving import ServingRows
from redline.plan.serve.serving_plan import ServingSituation
from redline.plan.serve.setup import family_of
from redline.plan.train.search.plan_trust import chip_of


@dataclass(frozen=True, kw_only=True)
class ServingFold:
    """Runs of one engine that are predicted from others of it."""

    situation: ServingSituation
    engine: str
    group: str
    fitted: Mask
    scored: Mask


def serving_groups(rows: ServingRows, situation: ServingSituation) -> Texts:
    """The group of every row. Dies of one kind are one GPU, whatever their memory and board."""
    if situation is ServingSituation.MODEL:
        return shapes_of(rows.model)
    names = map(chip_of, rows.gpu) if situation is ServingSituation.GPU else map(family_of, rows.gpu)
    return np.array(list(names))


def serving_folds(rows: ServingRows) -> Iterator[ServingFold]:
    """Of every engine. What nothing of the engine is left to predict from is not among them."""
    known = rows.speculative == 0
    for engine in sorted(set(rows.engine)):
        own = known & np.array([each == engine for each in rows.engine])
        for situation in ServingSituation:
            groups = serving_groups(rows, situation)
            for group in np.unique(groups[own]).tolist():
                fitted = own & (rows.held_out == 0) & (groups != group)
                scored = own & (groups == group) & _only_that_is_new(rows, fitted, situation)
                if fitted.any() and scored.any():
                    yield ServingFold(situation=situation, engine=engine, group=group, fitted=fitted, scored=scored)


def _only_that_is_new(rows: ServingRows, fitted: Mask, situation: ServingSituation) -> Mask:
    """A model that is alone on its GPU leaves a new GPU behind, and a GPU that is alone a new family."""
    if situation is ServingSituation.FAMILY:
        return np.ones(len(fitted), np.bool_)
    wider = ServingSituation.GPU if situation is ServingSituation.MODEL else ServingSituation.FAMILY
    names = serving_groups(rows, wider)
    return np.asarray(np.isin(names, names[fitted]), np.bool_)
