"""How many rows the products of a model have from call to call, told by the shapes of its linear layers."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.roofline.sizes import PRODUCTS, product_of
from redline.timeline.host_evidence import CalledModel
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.values import dataclass


def runs_backward(analysis: RankAnalysis) -> bool:
    return len(analysis.passes.backward) > 0


def heaviest_layers(analysis: RankAnalysis) -> list[I64]:
    """Rows of the left matrix (batch times sequence length) of calls of layers whose weights share one shape, in order
    of time; from the shape on which most time is spent, without layers of unknown shapes."""
    timeline, spans = analysis.timeline, analysis.timeline.spans
    calls = operators_in_steps(analysis)
    calls = outermost(analysis, calls[matching(timeline, calls, lambda name: name in PRODUCTS)])
    texts, _, _ = argument_texts(timeline, calls)
    by_weights: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row, name, text in zip(calls.tolist(), spans.name[calls].tolist(), texts.tolist(), strict=True):
        product = product_of(timeline.text(name), timeline.text(text))
        if product is not None and product.batch == 1:
            by_weights.setdefault((product.inner, product.columns), []).append((row, product.rows))
    columns = [np.array(listed, np.int64).T for listed in by_weights.values()]
    columns.sort(key=lambda column: -int(spans.dur_ns[column[0]].sum()))
    return [rows for _, rows in columns]


def steady_growth(rows: I64, least_calls: int) -> int:
    """By how many rows each call of a model has more than the one before it; 0 where they do not grow steadily.

    Layers of one call have the same rows, so repetitions count once. Where a request ends, the next one begins anew.
    """
    changed = rows[np.append(True, np.diff(rows) != 0)] if len(rows) else rows
    requests = np.split(changed, np.flatnonzero(np.diff(changed) < 0) + 1)
    longest = max(requests, key=len)
    growth = np.concatenate([np.diff(request) for request in requests])
    is_steady = len(longest) >= least_calls and bool((growth == growth[0]).all())
    return int(growth[0]) if is_steady else 0


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
    """So many of the steps have it that it is part of the loop."""
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
