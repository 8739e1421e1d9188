"""Which layout is the best: the fastest, and of those that no prediction tells apart, the safest and then the simplest.

Predictions of two layouts of one job err alike: between them two thirds lie within 4 % of each other on measured runs,
and half of that is taken for no difference. Of what is left, the chance of running out of memory decides, as far as
chances differ; then what is simpler to run and to debug, in this order: fewer pieces that the model and its sequences
are cut into (tp x pp x cp x chunks), a usual schedule, less recomputation, a lower stage of ZeRO, ZeRO over all copies,
fewer micro-batches.
"""

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column, Number
from redline.planner.train.layout import Layout

TOLD_APART = 0.02
"""Slower by less than this: not told apart."""
SURE = 0.02
"""Below this chance, nobody worries."""
ALIKE = 1e-3
"""Costs that differ by less are the same in lists."""

Order = NDArray[np.intp]


def by_speed(layout: Layout, step_s: Column, chance: Column, fits: NDArray[np.bool_]) -> Order:
    """All rows, the best first; those that do not fit are last."""
    fastest_s = np.min(step_s, where=fits, initial=np.inf)
    near = fits & (step_s <= fastest_s * (1 + TOLD_APART))
    among_near = np.where(near, _worry(chance), 0.0)
    speed = np.where(near, 0.0, grade(step_s))
    return np.lexsort((step_s, *_simplicity(layout, len(step_s)), speed, among_near, ~near, ~fits))


def by_memory(layout: Layout, step_s: Column, peak_bytes: Column, fits: NDArray[np.bool_]) -> Order:
    """The smallest first."""
    return np.lexsort((step_s, peak_bytes, *_simplicity(layout, len(step_s)), grade(peak_bytes), ~fits))


def grade(amounts: Column) -> Column:
    """The same for amounts that hardly differ."""
    return np.round(np.log(amounts) / ALIKE)


def _worry(chance: Column) -> Column:
    """0 where nobody worries, and 1 more for each doubling of the chance."""
    return np.ceil(np.log2(np.maximum(chance, SURE) / SURE))


def _simplicity(layout: Layout, rows: int) -> tuple[Column, ...]:
    """What is compared last comes first, as lexsort wants it."""
    pieces = layout.tp * layout.pp * layout.cp * layout.chunks
    more: Number = -np.asarray(layout.micro_batch, np.float64)
    shared: Number = np.where(np.asarray(layout.shard) > 0, 1.0, 0.0)
    parts: tuple[Number, ...] = (more, shared, layout.zero, layout.recompute, layout.schedule, pieces)
    return tuple(np.broadcast_to(np.asarray(part, np.float64), rows) for part in parts)
