"""The same collective on different ranks: which of their spans belong to one operation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from redline.timeline.intervals import Mask
from redline.timeline.table import I32, I64, Column, Table, column
from redline.timeline.timeline import NONE, Communications, Timeline
from redline.trace.schema import ENDS_TOGETHER
from redline.values import dataclass

_MOST_SHIFT = 3  # operations by which windows may begin apart
_LEAST_SHIFTED = 5  # operations that a rank must have seen for that to be told
_LEAST_OVERLAP = 0.5  # share of a rank's operations that a shift must leave matched
_CLEARLY, _CLOCK_NOISE_NS = 4, 20_000  # how much better a shift must fit to be believed
MOST_PER_RANK = 4096  # enough to align clocks by; keeps a rank's summary small
_RANKS_AT_ONCE = 512

Series = tuple[str, str, int]  # collective, group, size: what all ranks of one operation have in common


class Arrivals(Table):
    """Collectives without a root that one rank took part in, in order; times on the rank's own clock."""

    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    series: Column = column(np.int32)  # index into the series names: operations that look alike
    elements: I64 = column(np.int64)
    sequence: I64 = column(np.int64)  # the number of the operation in its group; -1 where the trace has none


@dataclass(frozen=True, kw_only=True)
class RankArrivals:
    """A rank's arrivals and the names of their series."""

    arrivals: Arrivals
    series: tuple[Series, ...]
    zero_ns: int = 0  # Unix time of 0 in the arrivals

    def take(self, places: Column) -> Arrivals:
        """Some of them, in Unix time."""
        some = self.arrivals.take(places)
        zero = np.int64(self.zero_ns)
        return replace(some, start_ns=some.start_ns + zero, end_ns=some.end_ns + zero)


def arrivals_of(timeline: Timeline) -> RankArrivals:
    """The collectives of a timeline by which clocks are aligned."""
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
        sequence=comms.sequence,
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys))


def _series(timeline: Timeline, comms: Communications, index: int) -> Series:
    """Ranks may pass different amounts to an all-to-all; to the others, one side of the exchange is equal for all."""
    collective = timeline.text(int(comms.collective[index]))
    sizes = {"all_gather": comms.out_elements, "all_reduce": comms.in_elements, "reduce_scatter": comms.in_elements}
    size = int(sizes[collective][index]) if collective in sizes else NONE
    return collective, timeline.text(int(comms.group_ranks[index])) or timeline.text(int(comms.group[index])), size


class Matched(Table):
    """One rank's part in one operation of the job; rows of an operation are neighbours."""

    operation: I64 = column(np.int64)
    rank: Column = column(np.int32)  # index of the rank in the order given
    place: Column = column(np.int32)  # row of the rank's arrivals
    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)


def matched(ranks: Sequence[RankArrivals]) -> Matched:
    """Operations that at least two ranks took part in: of a series those with the same sequence number.

    Where a trace has none, the n-th of a series on each of its ranks is one operation. Where ranks saw different
    numbers of them then (a window that began a step earlier), the shift is chosen that makes the distances between the
    ranks most equal.
    """
    by_series = _by_series(ranks)
    table = _Filled(sum(len(places) for members in by_series.values() for places in members.values()))
    operations = 0
    while by_series:  # each series is forgotten once it is matched: there are as many as ranks
        members = by_series.pop(next(iter(by_series)))
        if len(members) < 2:
            continue
        arrivals = {index: ranks[index].take(places) for index, places in members.items()}
        numbers = _by_sequence(arrivals) or _by_order(arrivals)
        parts = [
            _part(numbers[index] + operations, index, places, arrivals[index]) for index, places in members.items()
        ]
        table.add(_shared(parts))
        operations += 1 + max(int(some.max(initial=NONE)) for some in numbers.values())
    return table.whole()


def _by_sequence(members: Mapping[int, Arrivals]) -> dict[int, I64]:
    """Which operation of the series each arrival is of, by the numbers that the process group gave.

    Coalesced operations share a number: those are told apart by order. Nothing where a rank has no numbers.
    """
    sequence = np.concatenate([arrivals.sequence for arrivals in members.values()])
    if not len(sequence) or sequence.min() < 0:
        return {}
    again = np.concatenate([_times_before(arrivals.sequence) for arrivals in members.values()])
    _, number = np.unique(sequence, return_inverse=True)
    _, operation = np.unique(number * (int(again.max()) + 1) + again, return_inverse=True)
    edges = np.cumsum([len(arrivals) for arrivals in members.values()])[:-1]
    return dict(zip(members, np.split(operation, edges), strict=True))


def _times_before(sequence: Column) -> I64:
    """How often each number stood before its place."""
    order = np.argsort(sequence, kind="stable")
    ordered = sequence[order]
    first = np.searchsorted(ordered, ordered, "left")
    times = np.empty(len(sequence), np.int64)
    times[order] = np.arange(len(sequence)) - first
    return times


def _by_order(members: Mapping[int, Arrivals]) -> dict[int, I64]:
    """The same by the place in the series, shifted for windows that began later."""
    reference = max(members, key=lambda index: len(members[index]))
    shifts = {index: _shift(members[reference], arrivals) for index, arrivals in members.items()}
    lowest = min(shifts.values())
    return {index: np.arange(len(arrivals)) + (shifts[index] - lowest) for index, arrivals in members.items()}


def _by_series(ranks: Sequence[RankArrivals]) -> dict[Series, dict[int, I32]]:
    """For each series its ranks, and which of their arrivals belong to it."""
    by_series: dict[Series, dict[int, I32]] = {}
    for index, rank in enumerate(ranks):
        order = np.argsort(rank.arrivals.series, kind="stable").astype(np.int32)
        edges = np.searchsorted(rank.arrivals.series[order], np.arange(len(rank.series) + 1))
        for number, name in enumerate(rank.series):
            by_series.setdefault(name, {})[index] = order[edges[number] : edges[number + 1]]
    return by_series


def _part(operation: I64, index: int, places: I32, arrivals: Arrivals) -> Matched:
    return Matched(
        operation=operation,
        rank=np.full(len(places), index, np.int32),
        place=places,
        start_ns=arrivals.start_ns,
        end_ns=arrivals.end_ns,
    )


def _shift(reference: Arrivals, other: Arrivals) -> int:
    """Where in the reference the other rank's first operation is; most likely nowhere but at the same place."""
    surplus = len(reference) - len(other)
    if surplus == 0 and _agrees(_fit(reference, other, 0)):
        return 0
    usual = _likeliest([_fit(reference, other, shift) for shift in range(surplus + 1)])
    most = _MOST_SHIFT if len(other) >= _LEAST_SHIFTED else 0  # a few operations fit anywhere by chance
    best = min(_fit(reference, other, shift) for shift in range(-most, surplus + most + 1))
    clearly_better = (best.unlike, best.spread_ns * _CLEARLY + _CLOCK_NOISE_NS) < (usual.unlike, usual.spread_ns)
    return best.shift if clearly_better else usual.shift


class _Filled:
    """A table that is filled from its beginning."""

    def __init__(self, most: int) -> None:
        self._columns = {name: np.empty(most, dtype) for name, dtype in Matched.layout().items()}
        self._rows = 0

    def add(self, part: Matched) -> None:
        for name, values in part.columns().items():
            self._columns[name][self._rows : self._rows + len(part)] = values
        self._rows += len(part)

    def whole(self) -> Matched:
        return Matched(**{name: values[: self._rows] for name, values in self._columns.items()})


class _Fit(NamedTuple):
    """How well two ranks fit at a shift; less is better, from the first field to the last."""

    unlike: bool
    spread_ns: float  # of the distances between their ends
    distance_ns: float
    shift: int


def _agrees(fit: _Fit) -> bool:
    """So good a fit that no other shift could be clearly better."""
    return not fit.unlike and fit.spread_ns <= _CLOCK_NOISE_NS


def _likeliest(fits: list[_Fit]) -> _Fit:
    """The one that needs the smallest correction of the clocks, among those that fit about equally well."""
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


def _shared(parts: list[Matched]) -> Matched:
    """The parts in one table, without operations that only one rank took part in."""
    table = Matched(**{name: np.concatenate([part.columns()[name] for part in parts]) for name in Matched.layout()})
    table = table.take(np.lexsort((table.rank, table.operation)))
    _, counts = np.unique(table.operation, return_counts=True)
    return table.take(np.repeat(counts, counts) > 1)


def are_of(ranks: Sequence[RankArrivals], table: Matched, collectives: frozenset[str]) -> Mask:
    """Which rows are operations of one of these kinds."""
    chosen = np.zeros(len(table), bool)
    if not any(collective in collectives for rank in ranks for collective, _, _ in rank.series):
        return chosen
    for rank, rows in zip(ranks, rows_by_rank(table.rank, len(ranks)), strict=True):
        meant = np.array([collective in collectives for collective, _, _ in rank.series], bool)
        if meant.any():
            chosen[rows] = meant[rank.arrivals.series[table.place[rows]]]
    return chosen


def numbered(operation: Column) -> tuple[I32, I64]:
    """Operations numbered without gaps, and the first row of each; those of an operation are neighbours."""
    begins = np.ones(len(operation), bool)
    begins[1:] = operation[1:] != operation[:-1]
    return np.cumsum(begins, dtype=np.int32) - np.int32(1), np.flatnonzero(begins)


def blocks_by_rank(rank: Column, ranks: int) -> Iterator[I64]:
    """The rows of some ranks at a time, in order of rank."""
    rows_of = rows_by_rank(rank, ranks)
    while some := list(islice(rows_of, _RANKS_AT_ONCE)):
        yield np.concatenate(some)


def rows_by_rank(rank: Column, ranks: int) -> Iterator[I64]:
    """For each rank in order, the rows that are its own."""
    order = np.argsort(rank, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(rank, minlength=ranks))).tolist()
    return (order[first:last] for first, last in pairwise(edges))
