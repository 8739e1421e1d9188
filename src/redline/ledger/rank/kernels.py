"""How long compute kernels took against what their work needs: the roofline of each call of an operator."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from redline.hardware.machine import Machine
from redline.ledger.rank.activity import DeviceActivity, Mask, compute_ns
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.ratings import Ratings, rate, recomputed
from redline.ledger.rank.step_borders import step_borders
from redline.roofline.roofline import Roof, arithmetic_dtype, roof_of
from redline.roofline.sizes import Work
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Timeline
from redline.trace import schema
from redline.values import dataclass

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

Floats = npt.NDArray[np.float64]
FAMILY = "engine step"


@dataclass(frozen=True, kw_only=True)
class PieceWork:
    """What operators tell of the work of each piece of compute."""

    is_known: Mask
    flops: Floats
    bytes: Floats


@dataclass(frozen=True, kw_only=True)
class RatedStep:
    """What is left of a step's work for the kernels that no operator tells of."""

    label: int  # text
    work: Work
    roof: Roof
    time_ns: int  # that these kernels took


@dataclass(frozen=True, kw_only=True)
class RatedSteps:
    """Steps that are rated as a whole, and which pieces of compute belong to them."""

    steps: tuple[RatedStep, ...]
    step_of: I64  # for each piece of compute; NONE where its work is known otherwise, or not known

    @property
    def rated(self) -> Mask:
        rated: Mask = self.step_of != NONE
        return rated

    def needs(self) -> tuple[Floats, Floats]:
        """For each piece the shares of its time that the arithmetic needs, and the bytes beyond that."""
        math = np.array([min(step.roof.math_ns / step.time_ns, 1.0) for step in self.steps] + [0.0])
        roof = np.array([min(step.roof.roof_ns / step.time_ns, 1.0) for step in self.steps] + [0.0])
        return math[self.step_of], (roof - math)[self.step_of]


def rated_steps(
    timeline: Timeline,
    activity: DeviceActivity,
    machine: Machine | None,
    served: "ServedModel | None",
    told: PieceWork,
) -> RatedSteps:
    """Rate the work of an engine's steps by their labels and the model: of kernels whose operators were not recorded.

    A graph is launched as one; what is in it was recorded when it was captured, if at all. What the whole step must do
    is known all the same where its label has the sizes of its batch. What operators tell is part of their step. A job
    of several ranks divides its model in a way that no label tells.
    """
    step_of = np.full(len(activity.compute.row), NONE, np.int64)
    if served is None or machine is None or activity.device != "gpu" or timeline.metadata.world_size > 1:
        return RatedSteps(steps=(), step_of=step_of)
    steps: list[RatedStep] = []
    began_ns, took_ns = activity.compute.start_ns, compute_ns(timeline, activity)
    borders = step_borders(timeline, activity.window_ns)
    for label, low_ns, high_ns in zip(timeline.steps.label.tolist(), *(one.tolist() for one in borders), strict=True):
        inside = (began_ns >= low_ns) & (began_ns < high_ns)
        rest = inside & ~told.is_known
        time_ns, work = int(took_ns[rest].sum()), work_of_step(served, timeline.text(label))
        if work is None or not time_ns:
            continue
        left = replace(
            work,
            flops=max(work.flops - round(told.flops[inside].sum()), 0),
            bytes=max(work.bytes - round(told.bytes[inside].sum()), 0),
        )
        roof = roof_of(left, left.dtype, machine)
        if roof is not None and not np.isnan(roof.roof_ns):
            step_of[rest] = len(steps)
            steps.append(RatedStep(label=label, work=left, roof=roof, time_ns=time_ns))
    return RatedSteps(steps=tuple(steps), step_of=step_of)


def work_of_step(served: "ServedModel", label: str) -> Work | None:
    """None where the label has no sizes."""
    sizes = schema.batch_sizes_of(label)
    if sizes is None:
        return None
    flops = served.least_flops(requests=sizes.requests, queries=sizes.queries, pairs=sizes.pairs)
    read = served.weights_read() + served.cache_read(sizes.keys)
    return Work(flops=round(flops), bytes=round(read), dtype=served.dtype, family=FAMILY)


@dataclass(frozen=True, kw_only=True)
class OperatorCalls:
    """Calls of operators whose work is known, one row each: their kernels together, and what the work needs."""

    row: I64  # of the operator
    kernels: I64
    kernel_name: I64  # text: of its longest kernel
    time_ns: I64  # sum of its kernels
    moving_ns: I64  # sum of the copies and sets that it launched besides
    work: I64  # index into works
    works: tuple[Work, ...]
    dtype: npt.NDArray[np.str_]  # of the arithmetic
    math_ns: Floats  # nan where the machine or its peak is not known
    memory_ns: Floats
    recomputed: Mask

    def __len__(self) -> int:
        return len(self.row)

    @property
    def flops(self) -> Floats:
        return np.array([work.flops for work in self.works] + [0], np.float64)[self.work]

    @property
    def bytes(self) -> Floats:
        return np.array([work.bytes for work in self.works] + [0], np.float64)[self.work]

    @property
    def has_roof(self) -> Mask:
        return np.isfinite(self.math_ns) & np.isfinite(self.memory_ns)

    @property
    def above_roof(self) -> Mask:
        """Faster than the machine can be: its data came from a cache, or the shape, type or peak is wrong."""
        took_ns = self.time_ns + self.moving_ns
        return self.has_roof & (np.maximum(self.math_ns, self.memory_ns) > took_ns)


@dataclass(frozen=True, kw_only=True)
class RatedKernels:
    """Compute kernels of a rank against the roof."""

    calls: OperatorCalls
    call_of: I64  # for each piece of compute its call; NONE where its work is not known
    by_steps: RatedSteps  # of pieces without a call, where the work of their whole step is known

    @property
    def rated(self) -> Mask:
        """Which pieces have a roof."""
        by_calls: Mask = (self.call_of != NONE) & np.append(self.calls.has_roof, False)[self.call_of]
        return by_calls | self.by_steps.rated


def kernels_of(
    timeline: Timeline, activity: DeviceActivity, machine: Machine | None, served: "ServedModel | None" = None
) -> RatedKernels:
    """`served` is the model of a serving engine, where the user names it."""
    ratings = rate(timeline, activity)
    row, call_of = np.unique(ratings.operator, return_inverse=True)
    known = int(len(row) and row[0] == NONE)  # the first of the distinct rows may be NONE itself
    call_of = np.where(ratings.operator == NONE, NONE, call_of - known)
    calls = _calls(timeline, activity, ratings, row[known:], call_of, machine)
    return RatedKernels(
        calls=calls,
        call_of=call_of,
        by_steps=rated_steps(timeline, activity, machine, served, _work_of_pieces(calls, call_of)),
    )


def _work_of_pieces(calls: OperatorCalls, call_of: I64) -> PieceWork:
    """Of a call with several pieces, the first has all of its work."""
    flops, bytes_ = np.zeros(len(call_of)), np.zeros(len(call_of))
    numbers, first = np.unique(call_of, return_index=True)
    first = first[numbers != NONE]
    flops[first], bytes_[first] = calls.flops[call_of[first]], calls.bytes[call_of[first]]
    return PieceWork(is_known=call_of != NONE, flops=flops, bytes=bytes_)


def _calls(
    timeline: Timeline, activity: DeviceActivity, ratings: Ratings, row: I64, call_of: I64, machine: Machine | None
) -> OperatorCalls:
    pieces = np.flatnonzero(call_of != NONE)
    dur_ns = compute_ns(timeline, activity)[pieces]
    call = call_of[pieces]
    time_ns = np.zeros(len(row), np.int64)
    np.add.at(time_ns, call, dur_ns)
    work = np.empty(len(row), np.int64)
    work[call] = ratings.work[pieces]
    order = np.lexsort((dur_ns, call))
    last = np.flatnonzero(np.append(np.diff(call[order]) != 0, True)) if len(order) else order
    kernel_name = timeline.spans.name[activity.compute.row[pieces[order[last]]]].astype(np.int64)
    dtype, math_ns, memory_ns = _roofs(timeline, ratings.works, work, kernel_name, machine)
    return OperatorCalls(
        row=row,
        kernels=np.bincount(call, minlength=len(row)),
        kernel_name=kernel_name,
        time_ns=time_ns,
        moving_ns=_moving_ns(timeline, activity, row),
        work=work,
        works=ratings.works,
        dtype=dtype,
        math_ns=math_ns,
        memory_ns=memory_ns,
        recomputed=recomputed(timeline, row),
    )


def _moving_ns(timeline: Timeline, activity: DeviceActivity, row: I64) -> I64:
    """Time of the copies and sets that each of these operators launched: clearing its workspace is part of a matmul."""
    moving_ns = np.zeros(len(row) + 1, np.int64)
    if activity.device == "gpu" and len(row):
        work = timeline.device_work
        operator = work.operator[np.searchsorted(work.row, activity.copies.row)]
        place = np.minimum(np.searchsorted(row, operator), len(row) - 1)
        dur_ns = timeline.spans.dur_ns[activity.copies.row]
        np.add.at(moving_ns, np.where(row[place] == operator, place, NONE), dur_ns)
    return moving_ns[:-1]


def _roofs(
    timeline: Timeline, works: tuple[Work, ...], work: I64, kernel_name: I64, machine: Machine | None
) -> tuple[npt.NDArray[np.str_], Floats, Floats]:
    """Type of the arithmetic and both roofs of each call; each distinct work and kernel looked at once."""
    pairs, which = distinct(work, kernel_name)
    dtypes, roofs = [], []
    for work_index, name in pairs.T.tolist():
        dtype = arithmetic_dtype(works[work_index], timeline.texts[name])
        roof = roof_of(works[work_index], dtype, machine) if machine is not None else None
        dtypes.append(dtype)
        roofs.append((roof.math_ns, roof.memory_ns) if roof is not None else (np.nan, np.nan))
    both = np.array(roofs, np.float64).reshape(-1, 2)[which]
    return np.array(dtypes, np.str_)[which], both[:, 0], both[:, 1]


# --- what of the time the work needed ---------------------------------------------------------------------------------


def needs(kernels: RatedKernels) -> tuple[Floats, Floats]:
    """For each piece of compute the shares of its time that its arithmetic needs, and its bytes beyond that.

    A call needs no more than it took: what looks faster than the machine is flagged, not credited to others.
    """
    calls = kernels.calls
    time_ns = np.maximum(calls.time_ns, 1)
    math = np.minimum(np.nan_to_num(calls.math_ns) / time_ns, 1.0)
    memory = np.clip(np.nan_to_num(calls.memory_ns - calls.math_ns) / time_ns, 0.0, 1.0 - math)
    lent = np.where(kernels.rated, kernels.call_of, NONE)
    of_steps = kernels.by_steps.needs()
    return np.append(math, 0.0)[lent] + of_steps[0], np.append(memory, 0.0)[lent] + of_steps[1]
