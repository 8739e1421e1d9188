"""Throughput against latency: what a user gets per second against what a device delivers; sizes, formats, batches."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column, Model
from redline.planner.serve.continuous_batching import serve
from redline.planner.serve.deployment import Deployment, Traffic
from redline.planner.serve.formats import Format, stacked
from redline.planner.serve.numbers_or_columns import column
from redline.planner.serve.serving_cost import ServeOutcome
from redline.planner.serve.serving_rates import AcceleratorPeaks, Constants
from redline.planner.serve.serving_setup import Setup

BATCHES = tuple(float(2**power) for power in range(13))


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """All combinations that were looked at, in columns, and which of them nothing else beats in both respects."""

    format_names: tuple[str, ...]
    tp: Column
    attention_dp: Column
    concurrency: Column
    outcome: ServeOutcome
    best: NDArray[np.bool_]
    """Fits, and no other that fits has both more tokens per second per user and more per device."""


def frontier(
    model: Model,
    device: AcceleratorPeaks,
    engine: Constants,
    traffic: Traffic,
    *,
    formats: Sequence[Format],
    sizes: Sequence[int] = (1, 2, 4, 8),
    batches: Sequence[float] = BATCHES,
) -> Frontier:
    """Every format on every tensor parallel size at every number in flight; experts also with copied attention."""
    spread = (0, 1) if np.any(column(model.experts) > 0) else (0,)
    chosen = np.meshgrid(np.arange(len(formats)), sizes, spread, batches, indexing="ij")
    which, tp, copied, flying = (axis.ravel() for axis in chosen)
    once = (copied == 0) | (tp > 1)  # on one device the two are the same
    which, tp, copied, flying = which[once], column(tp[once]), copied[once], column(flying[once])
    attention_dp = np.where(copied > 0, tp, 1.0)
    where = Deployment(tp=tp, ep=np.where(copied > 0, tp, 1.0), attention_dp=attention_dp)
    setup = Setup(model=model, form=_rows(stacked(list(formats)), which), where=where, device=device, engine=engine)
    outcome = serve(setup, replace(traffic, concurrency=flying))
    room = (outcome.fits > 0) & (outcome.batch >= flying)
    return Frontier(
        format_names=tuple(formats[i].name for i in which),
        tp=tp,
        attention_dp=attention_dp,
        concurrency=flying,
        outcome=outcome,
        best=undominated(outcome.tokens_per_s_user, outcome.tokens_per_s_device, room),
    )


def undominated(first: Column, second: Column, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which allowed rows no other allowed row beats in one and reaches in the other.

    From the largest `first` downwards, a row is kept where its `second` is above all before it.
    """
    order = np.lexsort((-second, -first))
    seen = np.where(allowed[order], second[order], -np.inf)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(seen)[:-1]])
    kept = np.zeros(len(first), dtype=np.bool_)
    kept[order] = allowed[order] & (seen > before)
    return kept


def _rows(form: Format, which: NDArray[np.int64]) -> Format:
    taken: dict[str, Any] = {
        field.name: getattr(form, field.name)[which] for field in fields(Format) if field.name != "name"
    }
    return Format(**taken)
