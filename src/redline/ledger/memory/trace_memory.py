"""Every allocation of a device in a trace: its memory events paired by address, and what was held before.

A moment is the number of an event: what holds once that event is done. -1 is before the recording began.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from redline.ledger.memory.allocations import BEFORE, AllocationTable
from redline.ledger.memory.device_memory import HOST
from redline.ledger.rank.name_matching import matching
from redline.timeline.host_evidence import HeldKind, HeldTable
from redline.timeline.table import grouped
from redline.timeline.timeline import NONE, Kind, MemoryMarks, Timeline
from redline.trace import schema
from redline.values import dataclass

I64 = NDArray[np.int64]
UNSEEN = -1  # instead of a HeldKind: nobody said that it holds this


@dataclass(frozen=True, kw_only=True)
class TraceMemory:
    """What happened to the memory of one device. `stack` of the allocations has no meaning here: it is -1."""

    timeline: Timeline
    device: int
    events: MemoryMarks
    allocations: AllocationTable
    held: I64  # a HeldKind of each allocation, UNSEEN for none
    held_name: I64  # which of the names in the evidence, NONE for none
    other_bytes: int  # on the device before the recording began, of which nothing else is known; 0 for the host
    missed: int  # events that the trace must have lost: a block allocated or freed twice

    @cached_property
    def live_bytes(self) -> I64:
        """After each event, and first what was in use before any."""
        steps = np.zeros(len(self.events) + 2, np.int64)
        np.add.at(steps, self.allocations.born + 1, self.allocations.size_bytes)
        np.add.at(steps, self.allocations.died + 1, -self.allocations.size_bytes)
        live: I64 = np.cumsum(steps[:-1]) + self.other_bytes
        return live

    @cached_property
    def reserved_bytes(self) -> I64:
        """What the allocator had from the driver, at the same moments; that of the host keeps nothing."""
        told = self.events.reserved_bytes
        if self.device == HOST or not len(told):
            return self.live_bytes
        reserved: I64 = np.maximum(np.append(told[0], told), self.live_bytes)
        return reserved

    @cached_property
    def peak(self) -> int:
        """The moment at which most was in use."""
        return int(np.argmax(self.live_bytes)) - 1

    def moment(self, at_ns: I64) -> I64:
        """The last event until then."""
        moments: I64 = np.searchsorted(self.events.at_ns, at_ns, side="right") - 1
        return moments


def has_allocations(timeline: Timeline) -> bool:
    """Whether memory events of this trace can be paired."""
    return bool(((timeline.memory.bytes != 0) & (timeline.memory.address > 0)).any())


def trace_memories(timeline: Timeline) -> tuple[TraceMemory, ...]:
    """Of every device whose allocations were recorded, the one with most events first."""
    known = timeline.memory.take((timeline.memory.bytes != 0) & (timeline.memory.address > 0))
    devices = [(number, known.take(rows)) for number, rows in grouped(known.device)]
    return tuple(_trace_memory(timeline, number, marks) for number, marks in sorted(devices, key=_size))


def _size(device: tuple[int, MemoryMarks]) -> int:
    return -len(device[1])


def _trace_memory(timeline: Timeline, device: int, marks: MemoryMarks) -> TraceMemory:
    events = marks.take(np.argsort(marks.at_ns, kind="stable"))
    paired, missed = _paired(events)
    held = timeline.evidence.held.table
    sightings = _Sightings(events, paired, held.take(held.device == device), _cleared_ns(timeline))
    table = _joined(paired, sightings.from_before)
    before_bytes = int(table.size_bytes[table.born == BEFORE].sum())
    base_bytes = int(events.allocated_bytes[0] - events.bytes[0]) if device != HOST else 0
    return TraceMemory(
        timeline=timeline,
        device=device,
        events=events,
        allocations=table,
        held=sightings.kind,
        held_name=sightings.name,
        other_bytes=max(0, base_bytes - before_bytes),
        missed=missed,
    )


def _paired(events: MemoryMarks) -> tuple[AllocationTable, int]:
    """Births and deaths by address; and how many events are missing between them."""
    count = len(events)
    order = np.lexsort((np.arange(count), events.address))
    address, is_birth = events.address[order], events.bytes[order] > 0
    has_next = np.append(address[1:] == address[:-1], False)[:count]
    has_before = np.append(False, has_next[:-1])[:count]
    follows_birth = has_before & np.append(False, is_birth[:-1])[:count]
    births, orphans = np.flatnonzero(is_birth), np.flatnonzero(~is_birth & ~follows_birth)
    after = np.append(order[1:], count)
    died = np.where(has_next[births], after[births], count)
    before = np.append(BEFORE, order[:-1])[:count]
    # A block that is freed and was never allocated is from before the recording, unless its address had another.
    born = np.where(has_before[orphans], before[orphans], BEFORE)
    rows = np.append(order[births], order[orphans])
    size = np.abs(events.bytes[rows])
    table = _table(events.address[rows], size, np.append(order[births], born), np.append(died, order[orphans]))
    born_twice = has_next[births] & np.append(is_birth[1:], False)[births]
    return table, int(born_twice.sum()) + int(has_before[orphans].sum())


def _table(address: I64, size: I64, born: I64, died: I64) -> AllocationTable:
    unknown = np.full(len(address), NONE, np.int64)
    return AllocationTable(
        address=address, size_bytes=size, requested_bytes=size, stack=unknown, freed_by=unknown, born=born, died=died
    )


def _joined(first: AllocationTable, second: AllocationTable) -> AllocationTable:
    more = second.columns()
    return AllocationTable(**{name: np.append(values, more[name]) for name, values in first.columns().items()})


def _cleared_ns(timeline: Timeline) -> I64:
    """When gradients were cleared: ends of zero_grad."""
    rows = timeline.spans.rows_of(Kind.ANNOTATION)
    return np.sort(timeline.spans.end_ns[rows[matching(timeline, rows, schema.is_zero_grad)]])


class _Sightings:
    """What the job said that it holds, block by block; what no event tells of was there before the recording."""

    def __init__(self, events: MemoryMarks, table: AllocationTable, held: HeldTable, cleared_ns: I64) -> None:
        self._events, self._held, self._cleared_ns = events, held, cleared_ns
        kind, name = np.full(len(table), UNSEEN, np.int64), np.full(len(table), NONE, np.int64)
        unknown: list[I64] = []
        for at_ns, rows in grouped(held.time_ns):
            found = _around(table, self._moment(at_ns), held.address[rows])
            is_found = found >= 0
            kind[found[is_found]], name[found[is_found]] = held.kind[rows[is_found]], held.name[rows[is_found]]
            unknown.append(rows[~is_found])
        blocks = list(self._blocks(np.concatenate(unknown) if unknown else np.empty(0, np.int64)))
        columns = np.array(blocks, np.int64).reshape(-1, 5).T
        self.from_before = _table(columns[0], columns[1], np.full(len(blocks), BEFORE), columns[2])
        self.kind, self.name = np.append(kind, columns[3]), np.append(name, columns[4])

    def _moment(self, at_ns: int) -> int:
        return int(np.searchsorted(self._events.at_ns, at_ns, side="right")) - 1

    def _blocks(self, rows: I64) -> Iterator[tuple[int, int, int, int, int]]:
        """Address, size, death, kind and name of each block that was there before, by its last sighting."""
        held = self._held
        times = np.unique(held.time_ns)
        for address, places in grouped(held.address[rows]):
            last = int(rows[places[-1]])
            size, kind, seen_ns = int(held.bytes[last]), int(held.kind[last]), int(held.time_ns[last])
            yield address, size, self._death(kind, seen_ns, times), kind, int(held.name[last])

    def _death(self, kind: int, seen_ns: int, times: I64) -> int:
        """The host's allocator says nothing when it frees what it had before: a gradient lives until the next
        zero_grad, anything else until the next time that somebody looked."""
        if seen_ns == times[-1]:
            return len(self._events)
        later = self._cleared_ns[self._cleared_ns > seen_ns]
        until_ns = int(times[times > seen_ns][0])
        if kind == HeldKind.GRADIENT and len(later):
            until_ns = min(until_ns, int(later[0]))
        return min(self._moment(until_ns) + 1, len(self._events))


def _around(table: AllocationTable, moment: int, address: I64) -> I64:
    """The allocation in use at a moment that each address lies in, -1 for none."""
    rows = table.at(moment)
    rows = rows[np.argsort(table.address[rows])]
    if not len(rows):
        return np.full(len(address), NONE, np.int64)
    place = np.searchsorted(table.address[rows], address, side="right") - 1
    found = rows[np.maximum(place, 0)]
    is_inside = (place >= 0) & (address < table.address[found] + table.size_bytes[found])
    inside: I64 = np.where(is_inside, found, NONE)
    return inside
