"""The table of kernels: one row per operator and shape, with what it took, what it needs, and what limits it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np

from redline.ledger.rank.activity import DeviceActivity, compute_ns
from redline.ledger.rank.digest_limits import Amount, Count, Duration
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.kernels import RatedKernels
from redline.ledger.rank.ratings import operators_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Timeline
from redline.values import dataclass

Regime = Literal["compute", "memory", "neither", "above roof", "unknown"]
OTHERS = "(others)"  # instead of an operator
FAR_FROM_ROOFS = 1 / 3  # below this share of its roof, neither arithmetic nor bandwidth is what limits a kernel
_LONGEST_TEXT = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelRow:
    """Calls of one operator with the same shapes; or kernels of one name whose work is not known."""

    operator: str
    kernel: str  # the longest-running of its kernels
    shapes: str  # a JSON list; "" where they were not recorded
    dtype: str  # of the arithmetic; "" for work that is not known
    calls: Count
    kernels: Count
    time_ns: Duration  # sum of the kernels, and of the copies and sets that the operator launched besides
    flops: Amount
    bytes: Amount
    math_ns: float  # nan where the peak is not known, as is memory_ns
    memory_ns: float
    above: Count = 0  # calls that were faster than their roof

    @property
    def roof_ns(self) -> float:
        return max(self.math_ns, self.memory_ns) if self.math_ns == self.math_ns else self.math_ns

    @property
    def known(self) -> bool:
        """Whether its work is."""
        return self.bytes > 0 or self.flops > 0

    @property
    def share(self) -> float | None:
        """Of its time, what the machine would need at best; None where that is not known, or impossible."""
        if not self.known or self.roof_ns != self.roof_ns or not self.time_ns:
            return None
        return self.roof_ns / self.time_ns if self.roof_ns <= self.time_ns else None

    @property
    def regime(self) -> Regime:
        if not self.known or self.roof_ns != self.roof_ns:
            return "unknown"
        if self.roof_ns > self.time_ns:
            return "above roof"
        if self.roof_ns < FAR_FROM_ROOFS * self.time_ns:
            return "neither"
        return "compute" if self.math_ns > self.memory_ns else "memory"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What rows of different ranks have in common; the name of a kernel only where nothing else tells it."""
        return self.operator, self.shapes, self.dtype, "" if self.known else self.kernel or "-"


def kernel_table(timeline: Timeline, activity: DeviceActivity, kernels: RatedKernels) -> tuple[KernelRow, ...]:
    """All rows, the longest first."""
    rows = [
        *_known_rows(timeline, kernels),
        *_step_rows(timeline, activity, kernels),
        *_unknown_rows(timeline, activity, kernels),
    ]
    return tuple(sorted(rows, key=lambda row: (-row.time_ns, row.key)))


_ADDED = ("calls", "kernels", "time_ns", "flops", "bytes", "math_ns", "memory_ns", "above")


def merged(rows: Iterable[KernelRow]) -> tuple[KernelRow, ...]:
    """Rows of several ranks, added up by operator and shape."""
    first: dict[tuple[str, str, str, str], KernelRow] = {}
    amounts = attrgetter(*_ADDED)
    sums: dict[tuple[str, str, str, str], list[float]] = {}
    for row in rows:
        total = sums.get(row.key)
        if total is None:
            first[row.key], sums[row.key] = row, list(amounts(row))
        else:
            for place, amount in enumerate(amounts(row)):
                total[place] += amount
    added = [_with(row, sums[key]) for key, row in first.items()]
    return tuple(sorted(added, key=lambda row: (-row.time_ns, row.key)))


def shortened(rows: Sequence[KernelRow], most: int) -> tuple[KernelRow, ...]:
    """The longest rows, and the rest as one row of known work and one of unknown, so that no time is lost."""
    if len(rows) <= most:
        return tuple(rows)
    rest = (replace(row, operator=OTHERS, kernel="", shapes="", dtype="") for row in rows[most:])
    return merged([*rows[:most], *rest])


def _with(row: KernelRow, amounts: list[Any]) -> KernelRow:
    return replace(row, **dict(zip(_ADDED, amounts, strict=True)))


def _known_rows(timeline: Timeline, kernels: RatedKernels) -> list[KernelRow]:
    calls = kernels.calls
    if not len(calls):
        return []
    shapes = _shapes(timeline, calls.row)
    types, dtype = np.unique(calls.dtype, return_inverse=True)
    keys, which = distinct(timeline.spans.name[calls.row], shapes, dtype)
    longest = np.zeros(keys.shape[1], np.int64)
    order = np.argsort(calls.time_ns, kind="stable")
    longest[which[order]] = order  # the last to be written is the longest

    def total(values: np.typing.NDArray[Any]) -> list[float]:
        totals: list[float] = np.bincount(which, weights=values.astype(np.float64), minlength=keys.shape[1]).tolist()
        return totals

    counts, kernel_counts = np.bincount(which).tolist(), total(calls.kernels)
    time_ns, flops, size_bytes = total(calls.time_ns + calls.moving_ns), total(calls.flops), total(calls.bytes)
    math_ns, memory_ns, above = total(calls.math_ns), total(calls.memory_ns), total(calls.above_roof)
    return [
        KernelRow(
            operator=_cut(timeline.text(name)),
            kernel=_cut(timeline.text(int(calls.kernel_name[longest[index]]))),
            shapes=_cut(_compact(timeline.text(shape))),
            dtype=str(types[kind]),
            calls=counts[index],
            kernels=round(kernel_counts[index]),
            time_ns=round(time_ns[index]),
            flops=round(flops[index]),
            bytes=round(size_bytes[index]),
            math_ns=math_ns[index],
            memory_ns=memory_ns[index],
            above=round(above[index]),
        )
        for index, (name, shape, kind) in enumerate(keys.T.tolist())
    ]


def _step_rows(timeline: Timeline, activity: DeviceActivity, kernels: RatedKernels) -> Iterator[KernelRow]:
    """Of steps of a serving engine, whose kernels are rated together: one row for each."""
    by_steps, took_ns = kernels.by_steps, compute_ns(timeline, activity)
    for number, step in enumerate(by_steps.steps):
        pieces = np.flatnonzero(by_steps.step_of == number)
        longest = activity.compute.row[pieces[took_ns[pieces].argmax()]]
        yield KernelRow(
            operator=_cut(timeline.text(step.label)),
            kernel=_cut(timeline.text(int(timeline.spans.name[longest]))),
            shapes="",
            dtype=step.work.dtype,
            calls=1,
            kernels=len(pieces),
            time_ns=step.time_ns,
            flops=step.work.flops,
            bytes=step.work.bytes,
            math_ns=step.roof.math_ns,
            memory_ns=step.roof.memory_ns,
            above=int(step.roof.roof_ns > step.time_ns),
        )


def _unknown_rows(timeline: Timeline, activity: DeviceActivity, kernels: RatedKernels) -> list[KernelRow]:
    spans = timeline.spans
    pieces = np.flatnonzero((kernels.call_of == NONE) & ~kernels.by_steps.rated)
    if not len(pieces):
        return []
    rows = activity.compute.row[pieces]
    operator = operators_of(timeline, activity)[pieces]
    operator_name = np.where(operator != NONE, spans.name[operator], NONE)
    keys, which = distinct(operator_name, spans.name[rows])
    time_ns = np.zeros(keys.shape[1], np.int64)
    np.add.at(time_ns, which, compute_ns(timeline, activity)[pieces])
    calls, _ = distinct(which, rows)  # an operator on a CPU may be cut into several pieces
    counts = np.bincount(calls[0]).tolist()
    return [
        KernelRow(
            operator=_cut(timeline.text(name)),
            kernel=_cut(timeline.text(kernel)),
            shapes="",
            dtype="",
            calls=counts[index],
            kernels=counts[index],
            time_ns=int(time_ns[index]),
            flops=0,
            bytes=0,
            math_ns=float("nan"),
            memory_ns=float("nan"),
        )
        for index, (name, kernel) in enumerate(keys.T.tolist())
    ]


def _shapes(timeline: Timeline, rows: I64) -> I64:
    """Text of the recorded shapes of each operator."""
    operators = timeline.operators
    place = np.searchsorted(operators.row, rows)
    return operators.shapes[place].astype(np.int64)


def _compact(json: str) -> str:
    """The same JSON on one line, whatever the writer's taste."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.format(json, indent=0)
    return json


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
