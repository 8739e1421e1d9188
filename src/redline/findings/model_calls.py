"""How many rows the products of a model have from call to call, told by the shapes of its linear layers."""

from dataclasses import dataclass

import numpy as np

from redline.findings.operator_cost import argument_texts, operators_in_steps, outermost
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.roofline.sizes import PRODUCTS, product_of
from redline.timeline.table import I64


@dataclass(frozen=True, kw_only=True)
class LayerCalls:
    """Calls of the layers whose weights share one shape, in order of time."""

    row: I64
    rows: I64  # of the left matrix: batch times sequence length


def runs_backward(analysis: RankAnalysis) -> bool:
    return len(analysis.passes.backward) > 0


def heaviest_layers(analysis: RankAnalysis) -> list[LayerCalls]:
    """By the shape of their weights, from the one on which most time is spent; without those of unknown shapes."""
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
    return [LayerCalls(row=row, rows=rows) for row, rows in columns]


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
