"""The same collective on different ranks: which of their spans belong to one operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from redline.timeline.table import I64, Column, Table, column
from redline.timeline.timeline import Timeline
from redline.trace.schema import ENDS_TOGETHER

MOST_PER_RANK = 4096  # enough to align clocks by; keeps a rank's summary small


@dataclass(frozen=True, kw_only=True)
class Arrivals(Table):
    """Collectives without a root that one rank took part in, in order; times on the rank's own clock, Unix ns."""

    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    series: Column = column(np.int32)  # index into the series names: operations of one kind in one group
    elements: I64 = column(np.int64)


@dataclass(frozen=True, kw_only=True)
class RankArrivals:
    """A rank's arrivals and the names of their series."""

    arrivals: Arrivals
    series: tuple[tuple[str, str], ...]  # collective, group


def arrivals_of(timeline: Timeline) -> RankArrivals:
    """What aligning clocks needs of a timeline."""
    together = {index for index, text in enumerate(timeline.texts) if text in ENDS_TOGETHER}
    comms = timeline.communications
    comms = comms.take(np.isin(comms.collective, np.array(sorted(together), np.int32)))
    comms = comms.take(np.arange(len(comms)) < MOST_PER_RANK)
    keys: dict[tuple[str, str], int] = {}
    series = []
    for collective, group, members in zip(comms.collective, comms.group, comms.group_ranks, strict=True):
        key = (timeline.text(collective), timeline.text(members) or timeline.text(group))
        series.append(keys.setdefault(key, len(keys)))
    spans = timeline.spans
    start_ns = spans.start_ns[comms.row] + timeline.zero_ns
    arrivals = Arrivals(
        start_ns=start_ns,
        end_ns=start_ns + spans.dur_ns[comms.row],
        series=np.array(series, np.int32),
        elements=comms.in_elements,
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys))


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


def _of_series(rank: RankArrivals, name: tuple[str, str]) -> Arrivals:
    return rank.arrivals.take(rank.arrivals.series == rank.series.index(name))


def _shifts(members: Mapping[int, Arrivals]) -> dict[int, int]:
    """How many operations of a series each rank missed at its beginning, relative to the rank that saw most."""
    reference = max(members, key=lambda index: len(members[index]))
    return {index: _shift(members[reference], arrivals) for index, arrivals in members.items()}


def _shift(reference: Arrivals, other: Arrivals) -> int:
    surplus = len(reference) - len(other)
    if surplus == 0 or not len(other):
        return 0
    spreads = []
    for shift in range(surplus + 1):
        same = slice(shift, shift + len(other))
        distances = other.end_ns - reference.end_ns[same]
        alike = bool((other.elements == reference.elements[same]).all())
        spread = float(np.abs(distances - np.median(distances)).mean())
        spreads.append((not alike, spread, abs(float(np.median(distances))), shift))
    return min(spreads)[-1]


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
