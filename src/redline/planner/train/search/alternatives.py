"""Why a layout is the best: what is worse about every other choice, and which better machine would change it."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from redline.planner.train.column_rows import row_of
from redline.planner.train.layout import Layout
from redline.planner.train.search.evaluate import Evaluated, TrainingJob, evaluate
from redline.planner.train.search.ranking import TOLD_APART
from redline.planner.train.search.search import FoundLayouts
from redline.planner.train.step_cost import StepTime
from redline.planner.train.training_choices import ACCEPTED_CHANCE

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
    best = layouts.every.row(0)
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
    best, other = layouts.every.row(0), layouts.every.row(row)
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
    best = layouts.every.row(0)
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
