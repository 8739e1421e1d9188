"""Memory snapshots made by a small caching allocator of our own, which knows what was held at every moment."""

import pickle
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
Frame = tuple[str, str, int]  # function, file, line
MAIN: Frame = ("main", "/job/train.py", 90)


@dataclass
class MadeBlock:
    """One piece of a segment."""

    address: int
    size: int
    requested: int = 0
    in_use: bool = False
    frames: tuple[Frame, ...] = ()


@dataclass
class MadeSegment:
    """What the driver gave."""

    address: int
    size: int
    blocks: list[MadeBlock] = field(default_factory=list)
    is_small: bool = False

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True)
class Moment:
    """What was true after an event."""

    live: dict[int, tuple[int, int, tuple[Frame, ...]]]  # by address: size, requested, who
    reserved: int


class MadeAllocator:
    """Rounds, splits and merges blocks as the allocator of torch does, and keeps the same history."""

    is_expandable = False

    def __init__(self, device_bytes: int = 1 << 40) -> None:
        self.segments: list[MadeSegment] = []
        self.events: list[dict[str, Any]] = []
        self.moments: list[Moment] = []
        self.annotations: list[dict[str, Any]] = []
        self.is_recording = True
        self._device_bytes = device_bytes
        self._next_address = 0x7F00_0000_0000
        self._frames: dict[Frame, dict[str, Any]] = {}
        self._time_us = 1_700_000_000_000_000

    @property
    def reserved(self) -> int:
        return sum(segment.size for segment in self.segments)

    def alloc(self, requested: int, *frames: Frame) -> int:
        """The address. MemoryError, and an event, where the device has no more."""
        size = max(512, -(-requested // 512) * 512)
        block = self._best(size) or self._new_segment(size, requested, frames)
        self._split(block, size)
        block.in_use, block.requested = True, requested
        block.frames = frames if self.is_recording else ()
        self._record("alloc", block.address, requested, frames)
        return block.address

    def free(self, address: int, *frames: Frame) -> None:
        segment, block = next(
            (segment, block) for segment in self.segments for block in segment.blocks if block.address == address
        )
        self._record("free_requested", address, block.requested, frames)
        block.in_use, block.frames = False, ()
        self._merge(segment)
        self._record("free_completed", address, block.requested, frames)

    def empty_cache(self, *frames: Frame) -> None:
        for segment in [segment for segment in self.segments if not any(block.in_use for block in segment.blocks)]:
            self.segments.remove(segment)
            self._record("segment_free", segment.address, segment.size, frames)

    def mark(self, name: str, *, is_begin: bool = True) -> None:
        stage = "START" if is_begin else "END"
        self.annotations.append({"stage": stage, "name": name, "device": 0, "time_us": self._time_us})

    def begin_history(self) -> None:
        """What was allocated until now has no stack and no event."""
        self.is_recording = True
        self.events.clear()
        self.moments.clear()
        for segment in self.segments:
            for block in segment.blocks:
                block.frames = ()

    def snapshot(self) -> dict[str, Any]:
        """As torch.cuda.memory._snapshot() gives it."""
        return {
            "segments": [self._segment(segment) for segment in self.segments],
            "device_traces": [self.events],
            "allocator_settings": {"expandable_segments": self.is_expandable, "max_split_size": -1},
            "external_annotations": self.annotations,
        }

    def write(self, path: Path, protocol: int = 4) -> Path:
        path.write_bytes(pickle.dumps(self.snapshot(), protocol))
        return path

    # --- inside -------------------------------------------------------------------------------------------------------

    def _best(self, size: int) -> MadeBlock | None:
        is_small = size <= MIB
        fitting = [
            block
            for segment in self.segments
            for block in segment.blocks
            if not block.in_use and block.size >= size and segment.is_small == is_small
        ]
        return min(fitting, key=lambda block: (block.size, block.address), default=None)

    def _new_segment(self, size: int, requested: int, frames: tuple[Frame, ...]) -> MadeBlock:
        whole = 2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved + whole > self._device_bytes:
            self._record("oom", self._device_bytes - self.reserved, requested, frames)
            raise MemoryError
        segment = MadeSegment(self._next_address, whole, [MadeBlock(self._next_address, whole)], size <= MIB)
        self._next_address += whole + 4 * MIB
        self.segments.append(segment)
        self._record("segment_alloc", segment.address, whole, frames)
        return segment.blocks[0]

    def _split(self, block: MadeBlock, size: int) -> None:
        segment = next(segment for segment in self.segments if block in segment.blocks)
        rest = block.size - size
        if rest >= 512 if segment.is_small else rest > MIB:
            block.size = size
            segment.blocks.insert(segment.blocks.index(block) + 1, MadeBlock(block.address + size, rest))

    def _merge(self, segment: MadeSegment) -> None:
        merged: list[MadeBlock] = []
        for block in segment.blocks:
            if merged and not merged[-1].in_use and not block.in_use:
                merged[-1].size += block.size
            else:
                merged.append(block)
        segment.blocks = merged

    def _record(self, action: str, address: int, size: int, frames: tuple[Frame, ...]) -> None:
        if not self.is_recording:
            return
        self._time_us += 10
        where = "device_free" if action == "oom" else "addr"
        event = {"action": action, where: address, "size": size, "stream": 0, "time_us": self._time_us}
        self.events.append({**event, "frames": [self._frame(frame) for frame in frames]})
        blocks = (block for segment in self.segments for block in segment.blocks if block.in_use)
        live = {block.address: (block.size, block.requested, block.frames) for block in blocks}
        self.moments.append(Moment(live, self.reserved))

    def _frame(self, frame: Frame) -> dict[str, Any]:
        name, file, line = frame
        return self._frames.setdefault(frame, {"name": name, "filename": file, "line": line})

    def _segment(self, segment: MadeSegment) -> dict[str, Any]:
        blocks = [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": "active_allocated" if block.in_use else "inactive",
                "frames": [self._frame(frame) for frame in block.frames],
            }
            for block in segment.blocks
        ]
        used = sum(block.size for block in segment.blocks if block.in_use)
        return {
            "device": 0,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": used,
            "active_size": used,
            "requested_size": sum(block.requested for block in segment.blocks if block.in_use),
            "stream": 0,
            "segment_type": "small" if segment.is_small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": self.is_expandable,
            "frames": [],
            "blocks": blocks,
        }


class ExpandableAllocator(MadeAllocator):
    """The same with PYTORCH_ALLOC_CONF=expandable_segments:True: a segment grows by pages and gives any back."""

    is_expandable = True

    def _new_segment(self, size: int, requested: int, frames: tuple[Frame, ...]) -> MadeBlock:
        is_small = size <= MIB
        page = 2 * MIB if is_small else 20 * MIB
        pool = [segment for segment in self.segments if segment.is_small == is_small]
        segment = max(pool, key=lambda one: one.address, default=None) or self._reserved_range(is_small)
        last = segment.blocks[-1] if segment.blocks and not segment.blocks[-1].in_use else None
        more = -(-(size - (last.size if last else 0)) // page) * page
        if last is None:
            last = MadeBlock(segment.end, 0)
            segment.blocks.append(last)
        segment.size += more
        last.size += more
        self._record("segment_map", segment.end - more, more, frames)
        return last

    def _reserved_range(self, is_small: bool) -> MadeSegment:
        segment = MadeSegment(self._next_address, 0, [], is_small)
        self._next_address += 1 << 40
        self.segments.append(segment)
        return segment

    def empty_cache(self, *frames: Frame) -> None:
        """The first whole pages of each free block go; what is on either side stays, as segments of their own."""
        for segment in list(self.segments):
            page = 2 * MIB if segment.is_small else 20 * MIB
            for block in [block for block in segment.blocks if not block.in_use]:
                start = -(-block.address // page) * page
                pages = (block.address + block.size - start) // page * page
                if pages > 0:
                    self._unmap(segment, block, start, pages, frames)
                    break

    def _unmap(self, segment: MadeSegment, block: MadeBlock, start: int, size: int, frames: tuple[Frame, ...]) -> None:
        place, end = segment.blocks.index(block), segment.end
        before, after = segment.blocks[:place], segment.blocks[place + 1 :]
        if block.address < start:
            before.append(MadeBlock(block.address, start - block.address))
        if start + size < block.address + block.size:
            after.insert(0, MadeBlock(start + size, block.address + block.size - start - size))
        self.segments.remove(segment)
        if before:
            self.segments.append(MadeSegment(segment.address, start - segment.address, before, segment.is_small))
        if after:
            self.segments.append(MadeSegment(start + size, end - start - size, after, segment.is_small))
        self._record("segment_unmap", start, size, frames)


def random_allocator(seed: int, actions: int, kind: type[MadeAllocator] = MadeAllocator) -> MadeAllocator:
    """Allocations and frees by chance, from ten places; the first tenth has no history."""
    chance = random.Random(seed)
    made = kind()
    made.is_recording = False
    sites: list[Frame] = [(f"layer_{number}", f"/job/model_{number % 3}.py", number) for number in range(10)]
    live: list[int] = []
    for number in range(actions):
        if number == actions // 10:
            made.begin_history()
        if live and chance.random() < 0.47:
            made.free(live.pop(chance.randrange(len(live))), MAIN)
        else:
            size = int(2 ** chance.uniform(3, 25))
            live.append(made.alloc(size, chance.choice(sites), MAIN))
        if chance.random() < 0.01:
            made.empty_cache(MAIN)
    return made
