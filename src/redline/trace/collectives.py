"""The same collective on different ranks: which of their spans belong to one operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from redline.timeline.table import I64, Column, Table, column
from redline.timeline.timeline import NONE, Communications, Timeline
from redline.trace.schema import ENDS_TOGETHER

_MOST_SHIFT = 3  # operations by which windows may begin apart
_LEAST_OVERLAP = 0.5  # share of a rank's operations that a shift must leave matched
_CLEARLY, _CLOCK_NOISE_NS = 4, 20_000  # how much better a shift must fit to be believed
MOST_PER_RANK = 4096  # enough to align clocks by; keeps a rank's summary small


Series = tuple[str, str, int]  # collective, group, size: what all ranks of one operation have in common


@dataclass(frozen=True, kw_only=True)
class Arrivals(Table):
    """Collectives without a root that one rank took part in, in order; times on the rank's own clock, Unix ns."""

    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    series: Column = column(np.int32)  # index into the series names: operations that look alike
    elements: I64 = column(np.int64)


@dataclass(frozen=True, kw_only=True)
class RankArrivals:
    """A rank's arrivals and the names of their series."""

    arrivals: Arrivals
    series: tuple[Series, ...]


def arrivals_of(timeline: Timeline) -> RankArrivals:
    """What aligning clocks needs of a timeline."""
    together = {index for index, text in enumerate(timeline.texts) if text in ENDS_TOGETHER}
    comms = timeline.communications
    comms = comms.take(np.isin(comms.collective, np.array(sorted(together), np.int32)))
    comms = comms.take(np.arange(len(comms)) < MOST_PER_RANK)
    keys: dict[Series, int] = {}
    series = [keys.setdefault(_series(timeline, comms, index), len(keys)) for index in range(len(comms))]
    spans = timeline.spans
    start_ns = spans.start_ns[comms.row] + timeline.zero_ns
    arrivals = Arrivals(
        start_ns=start_ns,
        end_ns=start_ns + spans.dur_ns[comms.row],
        series=np.array(series, np.int32),
        elements=comms.in_elements,
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys))


def _series(timeline: Timeline, comms: Communications, index: int) -> Series:
    """Ranks may pass different amounts to an all-to-all; to the others, one side of the exchange is equal for all."""
    collective = timeline.text(int(comms.collective[index]))
    sizes = {"all_gather": comms.out_elements, "all_reduce": comms.in_elements, "reduce_scatter": comms.in_elements}
    size = int(sizes[collective][index]) if collective in sizes else NONE
    return collective, timeline.text(int(comms.group_ranks[index])) or timeline.text(int(comms.group[index])), size


@dataclass(frozen=True, kw_only=True)
class Matched(Table):
    """One rank's part in one operation of the job; rows of an operation are neighbours."""

    operation: I64 = column(np.int64)
    rank: Column = column(np.int32)  # index of the rank in the order given
    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)


def matched(ranks: Sequence[RankArrivals]) -> Matched:
    """Operations that at least two ranks took part in: the n-th of a series on each of its ranks is one operation.

    Where ranks saw different numbers of them (a window that began a step earlier), the shift is chosen that makes the
    distances between the ranks most equal.
    """
    parts: list[tuple[I64, int, I64, I64]] = []
    operations = 0
    for name in dict.fromkeys(key for rank in ranks for key in rank.series):
        members = {index: _of_series(rank, name) for index, rank in enumerate(ranks) if name in rank.series}
        if len(members) < 2:
            continue
        shifts = _shifts(members)
        lowest = min(shifts.values())
        for index, arrivals in members.items():
            numbers = np.arange(len(arrivals)) + (shifts[index] - lowest) + operations
            parts.append((numbers, index, arrivals.start_ns, arrivals.end_ns))
        operations += max(len(members[index]) + shift - lowest for index, shift in shifts.items())
    return _shared(parts)


def _of_series(rank: RankArrivals, name: Series) -> Arrivals:
    return rank.arrivals.take(rank.arrivals.series == rank.series.index(name))


def _shifts(members: Mapping[int, Arrivals]) -> dict[int, int]:
    """How many operations of a series each rank missed at its beginning, relative to the rank that saw most."""
    reference = max(members, key=lambda index: len(members[index]))
    return {index: _shift(members[reference], arrivals) for index, arrivals in members.items()}


def _shift(reference: Arrivals, other: Arrivals) -> int:
    """Where in the reference the other rank's first operation is; most likely nowhere but at the same place."""
    surplus = len(reference) - len(other)
    usual = _likeliest([_fit(reference, other, shift) for shift in range(surplus + 1)])
    best = min(_fit(reference, other, shift) for shift in range(-_MOST_SHIFT, surplus + _MOST_SHIFT + 1))
    clearly_better = (best.unlike, best.spread_ns * _CLEARLY + _CLOCK_NOISE_NS) < (usual.unlike, usual.spread_ns)
    return best.shift if clearly_better else usual.shift


class _Fit(NamedTuple):
    """How well two ranks fit at a shift; less is better, from the first field to the last."""

    unlike: bool
    spread_ns: float  # of the distances between their ends
    distance_ns: float
    shift: int


def _likeliest(fits: list[_Fit]) -> _Fit:
    """Of those that fit about equally well, the one that needs the smallest correction of the clocks."""
    best = min(fits)
    near = [fit for fit in fits if fit.unlike == best.unlike and fit.spread_ns <= 2 * best.spread_ns + _CLOCK_NOISE_NS]
    return min(near, key=lambda fit: fit.distance_ns)


def _fit(reference: Arrivals, other: Arrivals, shift: int) -> _Fit:
    first, last = max(0, -shift), min(len(other), len(reference) - shift)
    if last - first < max(1, len(other) * _LEAST_OVERLAP):
        return _Fit(True, inf, inf, shift)
    ours, theirs = slice(first, last), slice(first + shift, last + shift)
    distances = other.end_ns[ours] - reference.end_ns[theirs]
    middle = float(np.median(distances))
    unlike = bool((other.elements[ours] != reference.elements[theirs]).any())
    return _Fit(unlike, float(np.abs(distances - middle).mean()), abs(middle), shift)


def _shared(parts: list[tuple[I64, int, I64, I64]]) -> Matched:
    if not parts:
        return Matched.empty()
    operation = np.concatenate([part[0] for part in parts])
    rank = np.concatenate([np.full(len(part[0]), part[1], np.int32) for part in parts])
    start_ns, end_ns = (np.concatenate([part[place] for part in parts]) for place in (2, 3))
    order = np.lexsort((rank, operation))
    table = Matched(operation=operation[order], rank=rank[order], start_ns=start_ns[order], end_ns=end_ns[order])
    _, first, counts = np.unique(table.operation, return_index=True, return_counts=True)
    return table.take(np.repeat(counts, counts) > 1) if len(first) else table
