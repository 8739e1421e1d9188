"""How far plans lie from runs with nothing of their kind in the fit, and what simpler methods make of these runs."""

from collections.abc import Iterator

import numpy as np

from bench.plan.intervals import covered
from bench.plan.left_out import Residuals, of_neighbour, residuals
from bench.plan.peers import llm_analysis_logs
from bench.plan.rows import Mask
from bench.plan.validation import EXPERTS, LeftOut, LeftOutAccuracy, PeerAccuracy
from redline.plan.train.search.plan_trust import EVERY, Situation


def left_out_accuracy() -> LeftOut:
    return LeftOut(every=tuple(_every()), stacks=tuple(_by_stack()), peers=(_llm_analysis(),))


def accuracy(situation: Situation, name: str, mask: Mask) -> LeftOutAccuracy:
    told = residuals(situation).where(mask)
    errors, nearest = told.errors, np.abs(_same(of_neighbour(situation), told).errors)
    return LeftOutAccuracy(
        situation=situation,
        name=name,
        runs=len(told),
        groups=len(set(zip(told.runs.stacks.tolist(), told.groups.tolist(), strict=True))),
        bias=float(np.median(errors)),
        median=float(np.median(np.abs(errors))),
        ninetieth=float(np.quantile(np.abs(errors), 0.9)),
        covered=float(covered(situation)[mask].mean()),
        nearest_median=float(np.median(nearest)),
        nearest_ninetieth=float(np.quantile(nearest, 0.9)),
    )


def of_stack(situation: Situation, stack: str) -> LeftOutAccuracy | None:
    mask = residuals(situation).runs.stacks == stack
    return accuracy(situation, stack, mask) if mask.any() else None


def of_all(situation: Situation) -> LeftOutAccuracy:
    return accuracy(situation, EVERY, np.ones(len(residuals(situation)), np.bool_))


def _every() -> Iterator[LeftOutAccuracy]:
    for situation in Situation:
        yield of_all(situation)
        if situation is Situation.MODEL:
            yield accuracy(situation, EXPERTS, residuals(situation).runs.sparse)


def _by_stack() -> Iterator[LeftOutAccuracy]:
    for name in np.unique(residuals(Situation.STACK).runs.stacks).tolist():
        for situation in Situation:
            found = of_stack(situation, name)
            if found is not None:
                yield found


def _llm_analysis() -> PeerAccuracy:
    """It knows no software, so it is held against plans that do not know theirs either."""
    told = residuals(Situation.STACK)
    logs = llm_analysis_logs(told.runs)
    both = np.isfinite(logs)
    other, own = np.abs(np.expm1(-logs[both])), np.abs(told.errors[both])
    return PeerAccuracy(
        name="llm-analysis",
        runs=int(both.sum()),
        median=float(np.median(other)),
        ninetieth=float(np.quantile(other, 0.9)),
        own_median=float(np.median(own)),
        own_ninetieth=float(np.quantile(own, 0.9)),
    )


def _same(others: Residuals, told: Residuals) -> Residuals:
    return others.where(np.isin(others.runs.ids, told.runs.ids))
