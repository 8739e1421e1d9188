"""Outermost calls of models in each step, with their inputs, as `redline run` recorded them in inference."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from redline.findings.model_calls import runs_backward
from redline.findings.operator_cost import cost_of, operators_in_steps, outermost
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.host_evidence import CalledModel
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

LEAST_STEPS = 2  # that have it: once may be chance
STEPS_SHARE = 0.5  # of the steps that have it


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One call. It ends before the next call of the step or the end of the step: what follows it is in it."""

    model: int
    inputs: tuple[int, ...]
    start_ns: int
    end_ns: int


def steps_of_calls(analysis: RankAnalysis) -> list[list[ModelCall]]:
    """The calls of each step, in order; nothing where there is a backward pass."""
    calls = analysis.timeline.evidence.calls
    if not len(calls.table) or runs_backward(analysis):
        return []
    start_ns, end_ns = analysis.host_steps
    times_ns = calls.table.time_ns
    firsts, lasts = np.searchsorted(times_ns, start_ns), np.searchsorted(times_ns, end_ns)
    steps = []
    for first, last, step_end_ns in zip(firsts.tolist(), lasts.tolist(), end_ns.tolist(), strict=True):
        borders = [*times_ns[first:last].tolist(), step_end_ns]
        steps.append(
            [
                ModelCall(
                    model=int(calls.table.model[place]),
                    inputs=calls.inputs[place],
                    start_ns=begun_ns,
                    end_ns=over_ns,
                )
                for place, (begun_ns, over_ns) in enumerate(pairwise(borders), start=first)
            ]
        )
    return steps


def model_of(analysis: RankAnalysis, call: ModelCall) -> CalledModel:
    return analysis.timeline.evidence.calls.models[call.model]


def tensors_of_call(analysis: RankAnalysis, call: ModelCall) -> frozenset[int]:
    """Its inputs without numbers and options."""
    shapes = analysis.timeline.evidence.calls.shapes
    return frozenset(number for number in call.inputs if shapes[number])


def shapes_of_call(analysis: RankAnalysis, call: ModelCall) -> tuple[str, ...]:
    shapes = analysis.timeline.evidence.calls.shapes
    return tuple(shapes[number] for number in call.inputs)


def is_usual(steps: int, of_steps: int) -> bool:
    """Whether so many of the steps have it that it is part of the loop."""
    return steps >= LEAST_STEPS and steps >= STEPS_SHARE * of_steps


def time_of(analysis: RankAnalysis, calls: Iterable[ModelCall], *, with_before: bool = False) -> Intervals:
    """Device time that goes with these calls; on a CPU all of their time, and Python's before them if it is meant."""
    spans = analysis.timeline.spans
    rows = outermost(analysis, operators_in_steps(analysis))
    begun_ns, over_ns = spans.start_ns[rows], np.maximum.accumulate(spans.end_ns[rows])
    pieces = list(_pieces(calls, over_ns, begun_ns, with_before=with_before))
    time = Intervals.union_of(*np.array(pieces, np.int64).reshape(-1, 2).T)
    return cost_of(analysis, rows[time.contains(begun_ns)]) if analysis.on_gpu else time & analysis.in_steps


def _pieces(calls: Iterable[ModelCall], over_ns: I64, begun_ns: I64, *, with_before: bool) -> Iterator[tuple[int, int]]:
    for call in calls:
        last = int(np.searchsorted(begun_ns, call.start_ns)) - 1
        is_after = with_before and last >= 0
        yield (min(int(over_ns[last]), call.start_ns) if is_after else call.start_ns), call.end_ns
