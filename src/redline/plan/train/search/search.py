"""The layouts of a job that are worth running: ranked, and the frontier between speed and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column, Number
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.memory.footprint import Footprint, changed, footprint, oom_probability
from redline.plan.train.search.space import Space
from redline.plan.train.stacks import Rates
from redline.plan.train.step_cost import MemoryUse, StepTime, row_of, rows_of
from redline.plan.train.time.step import step_time
from redline.plan.train.training_choices import ACCEPTED_CHANCE, BY
from redline.plan.train.workload import Workload

# --- ranking ----------------------------------------------------------------------------------------------------------
# Predictions of two layouts of one job err alike: between them two thirds lie within 4 % of each other on measured
# runs, and half of that is taken for no difference. Of what is left, the chance of running out of memory decides, as
# far as chances differ; then what is simpler to run and to debug, in this order: fewer pieces that the model and its
# sequences are cut into (tp x pp x cp x chunks), a usual schedule, less recomputation, a lower stage of ZeRO, ZeRO
# over all copies, fewer micro-batches.


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


# --- evaluation of many layouts ---------------------------------------------------------------------------------------


Value = TypeVar("Value")

# Small enough for the columns of one evaluation to stay in the caches.
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """What is to be laid out, and on what."""

    workload: Workload
    batch: Batch
    rates: Rates
    stack: str
    dtype: str = "bf16"
    footprint: Mapping[str, float] = field(default_factory=dict)
    """Of fields of Footprint: numbers in the place of the stack's own."""

    @property
    def foot(self) -> Footprint:
        return changed(footprint(self.stack, self.dtype), self.footprint)


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Layouts with what they cost: columns, or plain numbers for one layout."""

    layout: Layout
    time: StepTime
    memory: MemoryUse
    chance: Column
    """Of running out of memory."""
    step_s: Column
    peak_bytes: Column

    def __len__(self) -> int:
        return len(self.chance)


def evaluate(job: TrainingJob, layouts: Layout) -> Evaluated:
    """All of them, some thousands at a time."""
    count = len(np.atleast_1d(layouts.dp))
    starts = range(0, max(count, 1), ROWS_AT_ONCE)
    parts = [_evaluate(job, rows_of(layouts, np.arange(at, min(at + ROWS_AT_ONCE, count)))) for at in starts]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _evaluate(job: TrainingJob, layout: Layout) -> Evaluated:
    time = step_time(job.workload.step_costs(job.batch, layout, job.rates))
    memory = job.workload.memory(job.batch, layout, job.foot)
    peak_bytes = memory.peak_bytes
    chance = oom_probability(peak_bytes, job.rates.device_bytes, job.stack)
    return Evaluated(layout=layout, time=time, memory=memory, chance=chance, step_s=time.step_s, peak_bytes=peak_bytes)


def _joined(values: Sequence[Value]) -> Value:
    """One value with the columns of all, one after the other."""
    joined: dict[str, object] = {}
    for each in fields(values[0]):  # type: ignore[arg-type]
        parts = [getattr(value, each.name) for value in values]
        if is_dataclass(parts[0]):
            joined[each.name] = _joined(parts)
        elif isinstance(parts[0], np.ndarray):
            joined[each.name] = np.concatenate(parts)
    return replace(values[0], **joined)  # type: ignore[type-var]


HARDLY = 0.05
"""Slower by less than this is worth a safer layout."""


@dataclass(frozen=True, kw_only=True)
class FoundLayouts:
    """All layouts that can run, the best first; those that probably run out of memory are at the end."""

    every: Evaluated
    fitting: int
    """How many of them fit, from the first on."""


def search(
    job: TrainingJob, space: Space, *, by: str = BY[0], accepted_chance: float = ACCEPTED_CHANCE
) -> FoundLayouts:
    """Evaluate every layout of the space, and order them by speed or by memory."""
    every = evaluate(job, _running(job, job.workload.layouts(job.batch, space)))
    fits = every.chance <= accepted_chance
    if by == "speed":
        order = by_speed(every.layout, every.step_s, every.chance, fits)
    else:
        order = by_memory(every.layout, every.step_s, every.peak_bytes, fits)
    return FoundLayouts(every=rows_of(every, order), fitting=int(np.count_nonzero(fits)))


def safer(layouts: FoundLayouts) -> int | None:
    """The row that is the least likely to run out of memory, of those that are hardly slower than the first."""
    every = rows_of(layouts.every, np.arange(layouts.fitting))
    if not layouts.fitting or every.chance[0] <= SURE:
        return None
    near = np.flatnonzero(every.step_s <= every.step_s[0] * (1 + HARDLY))
    row = int(near[np.argmax(every.chance[near] <= SURE)])
    return row if every.chance[row] <= SURE else None


def _running(job: TrainingJob, possible: Layout) -> Layout:
    """Those that the stack does not refuse."""
    runs = job.workload.runnable(job.batch, possible, job.foot)
    return rows_of(possible, runs)


def frontier(layouts: FoundLayouts) -> NDArray[np.intp]:
    """Rows of the layouts that fit and than which none is both faster and smaller, the fastest first."""
    steps, peaks = (
        layouts.every.step_s[: layouts.fitting],
        layouts.every.peak_bytes[: layouts.fitting],
    )
    order = np.lexsort((peaks, steps))
    smallest_before = np.minimum.accumulate(np.concatenate(([np.inf], peaks[order][:-1])))
    return order[peaks[order] < smallest_before]


# --- alternatives -----------------------------------------------------------------------------------------------------


DIMENSIONS = ("tp", "pp", "cp", "ep", "zero", "recompute", "micro_batch", "chunks", "schedule")
# All times of the host.
_HOST = (
    "host_layer_s", "host_collective_s", "host_across_s", "host_expert_s", "host_busy_s", "host_micro_batch_s",
    "host_send_s", "host_step_s", "host_optimizer_s",
)  # fmt: skip
# By how much each is made better: one respect at a time.
BETTER = (
    ("memory", 1.5, ("device_bytes",)),
    ("network", 2.0, ("nic_bytes_per_s",)),
    ("links", 2.0, ("node_bytes_per_s", "pair_bytes_per_s")),
    ("compute", 2.0, ("compute_flops_per_s", "attention_flops_per_s", "head_flops_per_s")),
    ("host", 0.5, _HOST),
)


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """The best layout with another value in one dimension, and what is worse about it."""

    dimension: str
    value: int
    layout: Layout
    fits: bool
    slower: float
    """Its step time as a multiple of the best one's; of one that does not fit, that of the smallest."""
    cause: str
    """The part of the step that grew most, as StepTime names it without its unit; "memory" where nothing fits."""
    grown_s: float
    grown: float
    """That part as a multiple of the best layout's (inf where that has none); of memory, peak over what there is."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The best layout on a machine that is better in one respect."""

    what: str
    factor: float
    layout: Layout
    faster: float
    """Step time now over step time then."""
    differs: bool
    """Whether another layout would be the best."""


def alternatives(layouts: FoundLayouts, device_bytes: float) -> tuple[Alternative, ...]:
    """For each dimension and each value in it that the best layout does not have."""
    best = row_of(layouts.every, 0)
    others = []
    for dimension in DIMENSIONS:
        column = np.asarray(getattr(layouts.every.layout, dimension))
        mine = getattr(best.layout, dimension)
        for value in sorted(set(column.tolist()) - {mine}):
            rows = np.flatnonzero(column == value)
            others.append(_alternative(layouts, dimension, int(value), rows, device_bytes))
    return tuple(others)


def _alternative(
    layouts: FoundLayouts, dimension: str, value: int, rows: np.ndarray, device_bytes: float
) -> Alternative:
    """Rows are ordered, so the first is the best; where none fits, the smallest stands for them."""
    fits = bool(rows[0] < layouts.fitting)
    row = int(rows[0]) if fits else int(rows[np.argmin(layouts.every.peak_bytes[rows])])
    best, other = row_of(layouts.every, 0), row_of(layouts.every, row)
    cause, grown_s, grown = _grown_most(best, other)
    if not fits:
        cause, grown_s, grown = "memory", 0.0, float(other.peak_bytes) / device_bytes
    slower = float(other.step_s / best.step_s)
    return Alternative(
        dimension=dimension, value=value, layout=other.layout, fits=fits, slower=slower, cause=cause,
        grown_s=grown_s, grown=grown,
    )  # fmt: skip


def _grown_most(best: Evaluated, other: Evaluated) -> tuple[str, float, float]:
    names = [field.name for field in fields(StepTime)]
    parts = [(float(getattr(best.time, name)), float(getattr(other.time, name)), name) for name in names]
    before, after, name = max(parts, key=lambda part: part[1] - part[0])
    return name.removesuffix("_s"), after - before, after / before if before > 0 else np.inf


def changes(
    job: TrainingJob,
    layouts: FoundLayouts,
    *,
    accepted_chance: float = ACCEPTED_CHANCE,
    tell: Callable[[int], None] = lambda done: None,
) -> tuple[Change, ...]:
    """The search again on better machines: what would be the best layout there? `tell` is told how many are done."""
    best = row_of(layouts.every, 0)
    seen: list[Change] = []
    for what, factor, names in BETTER:
        tell(len(seen))
        better = replace(job.rates, **{name: getattr(job.rates, name) * factor for name in names})
        again = evaluate(replace(job, rates=better), layouts.every.layout)
        steps = np.where(again.chance <= accepted_chance, again.step_s, np.inf)
        fastest = int(np.argmin(steps))
        # The same speed by another layout is no other answer.
        differs = bool(steps[fastest] < steps[0] * (1 - TOLD_APART))
        row = fastest if differs else 0
        layout = row_of(again.layout, row) if differs else best.layout
        faster = float(best.step_s / again.step_s[row])
        seen.append(Change(what=what, factor=factor, layout=layout, faster=faster, differs=differs))
    return tuple(seen)
