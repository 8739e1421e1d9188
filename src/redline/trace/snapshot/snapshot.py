"""A memory snapshot as columns: segments, the blocks in them, and what the allocator did before."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from redline.timeline.problems import Problem
from redline.timeline.table import Table, column
from redline.values import dataclass

I64 = NDArray[np.int64]
NO_STACK = -1


class AllocatorAction(IntEnum):
    """What the allocator did; OTHER is counted and has no effect."""

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    OOM = 7
    SNAPSHOT = 8
    OTHER = 9


class BlockState(IntEnum):
    """Whose a block is."""

    INACTIVE = 0
    ALLOCATED = 1
    PENDING_FREE = 2  # freed, but another stream still uses it


class SegmentTable(Table):
    """What the allocator has from the driver."""

    device: I64 = column(np.int64)
    address: I64 = column(np.int64)
    size_bytes: I64 = column(np.int64)
    allocated_bytes: I64 = column(np.int64)
    stream: I64 = column(np.int64)
    is_small: I64 = column(np.int64)
    is_expandable: I64 = column(np.int64)


class BlockTable(Table):
    """The pieces of segments, in their order."""

    segment: I64 = column(np.int64)
    address: I64 = column(np.int64)
    size_bytes: I64 = column(np.int64)
    requested_bytes: I64 = column(np.int64)
    state: I64 = column(np.int64)
    stack: I64 = column(np.int64)


class AllocatorEvents(Table):
    """What the allocator of each device did, in its order; of an OOM, `address` is what the driver had free."""

    device: I64 = column(np.int64)
    action: I64 = column(np.int64)
    address: I64 = column(np.int64)
    size_bytes: I64 = column(np.int64)
    stream: I64 = column(np.int64)
    at_us: I64 = column(np.int64)
    stack: I64 = column(np.int64)


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One line of a stack."""

    name: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Annotation:
    """The begin or the end of what torch itself marks, such as a step of the optimizer."""

    name: str
    device: int
    at_us: int
    is_begin: bool


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One file, which may hold several devices of a process."""

    name: str
    segments: SegmentTable
    blocks: BlockTable
    events: AllocatorEvents
    frames: tuple[StackFrame, ...]
    stacks: tuple[tuple[int, ...], ...]  # rows of `frames`, the innermost first
    annotations: tuple[Annotation, ...]
    settings: dict[str, str]  # of the allocator
    history_is_whole: bool  # False where the file was cut, so that the last events are missing
    problems: tuple[Problem, ...]

    @property
    def devices(self) -> tuple[int, ...]:
        """Those that hold memory or did something, in order."""
        return tuple(int(device) for device in np.union1d(self.segments.device, self.events.device))

    def frames_of(self, stack: int) -> tuple[StackFrame, ...]:
        return () if stack == NO_STACK else tuple(self.frames[row] for row in self.stacks[stack])
