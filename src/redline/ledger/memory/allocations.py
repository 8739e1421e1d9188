"""Every allocation of a device with its birth and death: the allocator's events paired, held against its last state.

A moment is the number of an event: what holds once that event is done. -1 is before the history began.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from redline.timeline.table import Table, column
from redline.trace.snapshot.snapshot import (
    NO_STACK,
    AllocatorAction,
    AllocatorEvents,
    BlockState,
    BlockTable,
    SegmentTable,
    Snapshot,
)
from redline.values import dataclass

I64 = NDArray[np.int64]
BEFORE = -1  # born before the history began
_MOST_BYTES = 1 << 50  # of an allocation
_ROUNDED_TO = 512  # what the allocator rounds a request up to


class AllocationTable(Table):
    """Blocks that were in use, each from the event of its birth to that of its death."""

    address: I64 = column(np.int64)
    size_bytes: I64 = column(np.int64)  # of blocks that are gone: what was asked for, rounded up
    requested_bytes: I64 = column(np.int64)
    stack: I64 = column(np.int64)  # of the birth
    freed_by: I64 = column(np.int64)  # stack of the death
    born: I64 = column(np.int64)
    died: I64 = column(np.int64)  # the number of events where it is still in use

    def at(self, moment: int) -> I64:
        """Rows that are in use."""
        return np.flatnonzero((self.born <= moment) & (moment < self.died))


@dataclass(frozen=True, kw_only=True)
class MemoryHistory:
    """What happened to the memory of one device."""

    snapshot: Snapshot
    device: int
    events: AllocatorEvents
    allocations: AllocationTable
    segments: SegmentTable  # in the end
    blocks: BlockTable  # in the end; `segment` counts among those of the device
    contradictions: int  # events that cannot be true beside the others: then only the last state is used

    @property
    def end(self) -> int:
        """The last moment."""
        return len(self.events) - 1

    def live_bytes(self) -> I64:
        """After each event, and first what was in use before any."""
        steps = np.zeros(len(self.events) + 2, np.int64)
        np.add.at(steps, self.allocations.born + 1, self.allocations.size_bytes)
        np.add.at(steps, self.allocations.died + 1, -self.allocations.size_bytes)
        return np.cumsum(steps[:-1])

    def reserved_bytes(self) -> I64:
        """What the allocator had from the driver, at the same moments."""
        sizes = self.events.size_bytes
        got = np.isin(self.events.action, (AllocatorAction.SEGMENT_ALLOC, AllocatorAction.SEGMENT_MAP))
        gave = np.isin(self.events.action, (AllocatorAction.SEGMENT_FREE, AllocatorAction.SEGMENT_UNMAP))
        changes = np.where(got, sizes, 0) - np.where(gave, sizes, 0)
        now = int(self.segments.size_bytes.sum())
        return np.append(now - int(changes.sum()), now - int(changes.sum()) + np.cumsum(changes))

    @property
    def peak(self) -> int:
        """The moment at which most was in use."""
        return int(np.argmax(self.live_bytes())) - 1

    @property
    def ooms(self) -> tuple[int, ...]:
        """The moments at which an allocation failed."""
        return tuple(int(event) for event in np.flatnonzero(self.events.action == AllocatorAction.OOM))


def memory_history(snapshot: Snapshot, device: int) -> MemoryHistory:
    """Of one device; a history that is cut, or contradicts the blocks, is left out."""
    segments = snapshot.segments.take(snapshot.segments.device == device)
    mine = snapshot.segments.device[snapshot.blocks.segment] == device
    numbers = np.cumsum(snapshot.segments.device == device) - 1
    blocks = snapshot.blocks.take(mine)
    blocks = BlockTable(**{**blocks.columns(), "segment": numbers[blocks.segment]})
    all_events = snapshot.events.take(snapshot.events.device == device)
    events = all_events if snapshot.history_is_whole else all_events.take(slice(0))
    history = _history(snapshot, device, events, segments, blocks)
    if history.contradictions:
        return without_events(history)
    return history


def without_events(history: MemoryHistory) -> MemoryHistory:
    """Only the last state, which the reader has checked; the history is known to be wrong."""
    none = history.events.take(slice(0))
    bare = _history(history.snapshot, history.device, none, history.segments, history.blocks)
    return replace(bare, contradictions=max(history.contradictions, 1))


def _history(
    snapshot: Snapshot, device: int, events: AllocatorEvents, segments: SegmentTable, blocks: BlockTable
) -> MemoryHistory:
    allocations, contradictions = _paired(events, blocks)
    history = MemoryHistory(
        snapshot=snapshot,
        device=device,
        events=events,
        allocations=allocations,
        segments=segments,
        blocks=blocks,
        contradictions=contradictions,
    )
    absurd = (events.size_bytes < 0) | (events.size_bytes >= _MOST_BYTES) | (events.address >> 62 != 0)
    below = history.reserved_bytes() < history.live_bytes()
    return replace(history, contradictions=contradictions + int(absurd.sum()) + int(below.sum()))


def _paired(events: AllocatorEvents, blocks: BlockTable) -> tuple[AllocationTable, int]:
    """Births and deaths by address, with the blocks of the end; and how many of them do not fit together."""
    count = len(events)
    is_birth, is_death = events.action == AllocatorAction.ALLOC, events.action == _death(events)
    in_use = blocks.take(blocks.state != BlockState.INACTIVE)
    # Each address has births, deaths and perhaps a last block, in the order of time; the last comes after all events.
    rows = np.flatnonzero(is_birth | is_death)
    address = np.append(events.address[rows], in_use.address)
    when = np.append(rows, np.full(len(in_use), count))
    order = np.lexsort((when, address))
    address, when = address[order], when[order]
    last = when == count
    event = np.minimum(when, count - 1)
    begins = np.zeros(len(when), bool) if not count else ~last & is_birth[event]
    closes = ~begins  # a death, or the block of the end
    is_next = address[1:] == address[:-1]
    follows, is_followed = np.append(False, is_next)[: len(when)], np.append(is_next, False)[: len(when)]
    before = np.append(False, begins[:-1])[: len(when)] & follows
    closed = is_followed & np.append(closes[1:], False)[: len(when)]
    wrong = int((begins & ~closed).sum() + (closes & follows & ~before).sum())
    ends = np.flatnonzero(closes)
    born = np.where(before[ends], when[ends - 1], BEFORE)
    size, requested, stack, freed_by = _facts(events, in_use, when[ends], address[ends], born)
    mismatched = (born != BEFORE) & (requested != _at(events.size_bytes, born))
    table = AllocationTable(
        address=address[ends], size_bytes=size, requested_bytes=requested, stack=stack, freed_by=freed_by,
        born=born, died=when[ends],
    )  # fmt: skip
    return table, wrong + int(mismatched.sum())


def _death(events: AllocatorEvents) -> AllocatorAction:
    """Who left one kind of event out of the history has the other."""
    has_completed = bool((events.action == AllocatorAction.FREE_COMPLETED).any())
    return AllocatorAction.FREE_COMPLETED if has_completed else AllocatorAction.FREE_REQUESTED


def _facts(
    events: AllocatorEvents, in_use: BlockTable, died: I64, address: I64, born: I64
) -> tuple[I64, I64, I64, I64]:
    """Size, request, and stacks of birth and death: of what is still there from its block, else from the events."""
    is_there = died == len(events)
    by_address = np.argsort(in_use.address)
    place = by_address[np.searchsorted(in_use.address[by_address], address[is_there])]
    requested = np.where(is_there, 0, _at(events.size_bytes, died))
    requested[is_there] = in_use.requested_bytes[place]
    size = np.maximum(-(-requested // _ROUNDED_TO) * _ROUNDED_TO, _ROUNDED_TO)
    size[is_there] = in_use.size_bytes[place]
    stack = np.where(born == BEFORE, NO_STACK, _at(events.stack, born))
    of_block = np.full(len(died), NO_STACK)
    of_block[is_there] = in_use.stack[place]
    return (
        size,
        requested,
        np.where(stack == NO_STACK, of_block, stack),
        np.where(is_there, NO_STACK, _at(events.stack, died)),
    )


def _at(values: I64, places: I64) -> I64:
    """Values at these places; what is outside has any value."""
    if not len(values):
        return np.zeros(len(places), np.int64)
    return values[np.clip(places, 0, len(values) - 1)]
