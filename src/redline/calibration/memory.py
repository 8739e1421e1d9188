"""How fast memory moves, by size: copy, triad, sum, allocation, and transfers between host and device.

The three streams are STREAM's copy and triad, and a reduction; bytes are counted as STREAM does, as the program reads
and writes them. A working set that fits into a cache is faster; one of a few kilobytes is slower again, because then
the time is that of calling an operator.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from redline.calibration.bench import BenchmarkCase, Samples
from redline.calibration.calibration_record import BandwidthPoint, Estimate
from redline.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from redline.calibration.device import ProbeDevice


_PROCESSORS = Path("/sys/devices/system/cpu")
_USUAL_BYTES = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_bytes(processors: Path = _PROCESSORS) -> int:
    """All caches of the last level together: a processor may have one per group of cores. 32 MiB where unknown."""
    caches = dict(
        cache for number in sorted(os.sched_getaffinity(0)) if (cache := _last(processors / f"cpu{number}" / "cache"))
    )
    return sum(caches.values()) or _USUAL_BYTES


def _last(folder: Path) -> tuple[str, int] | None:
    """Which processors share the last cache of this one, and its size."""
    caches = [(_text(index / "level"), index) for index in folder.glob("index*")]
    level, index = max(caches, default=("", folder))
    units = _text(index / "size")
    if not level or not units[:-1].isdigit() or units[-1] not in _UNITS:
        return None
    return _text(index / "shared_cpu_list"), int(units[:-1]) * _UNITS[units[-1]]


def _text(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""


STREAMS = {"copy": 2, "triad": 3, "sum": 1}  # how many arrays each takes
_FIRST_BYTES = 16 << 10
_STEP, _QUICK_STEP = 4, 8
_FEWEST_BYTES, _MOST_BYTES = 256 << 20, 4 << 30
_CUDA_BYTES = 1 << 30
_LINE_BYTES = 64
_ALLOCATED_BYTES = (16 << 10, 1 << 20, 64 << 20, 256 << 20)
"""An allocator keeps the small ones for the next time; the large ones go back to the system and cost page faults."""
_TRANSFERRED_BYTES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)


@dataclass(frozen=True, kw_only=True)
class Movement:
    """One way to move memory, at one size. See `BandwidthPoint`."""

    kind: str
    working_bytes: int
    moved_bytes: int


def largest_bytes(device: ProbeDevice, *, quick: bool) -> int:
    """Of all arrays of the largest stream together: far more than caches hold, at most a quarter of what is free."""
    if device.is_cuda:
        import torch

        wanted = max(_CUDA_BYTES, 40 * torch.cuda.get_device_properties(device.torch_device).L2_cache_size)
    else:
        wanted = (2 if quick else 4) * last_level_bytes()
    return min(max(wanted, _FEWEST_BYTES), _MOST_BYTES, 1 << max(0, (device.free_bytes() // 4).bit_length() - 1))


def first_cases(device: ProbeDevice, *, quick: bool) -> list[BenchmarkCase[Movement]]:
    """The streams beyond the caches."""
    largest = largest_bytes(device, quick=quick)
    return [_Memory(device, largest).case(kind, largest) for kind in STREAMS]


def cases(device: ProbeDevice, *, quick: bool) -> list[BenchmarkCase[Movement]]:
    largest = largest_bytes(device, quick=quick)
    memory = _Memory(device, largest)
    streams = [memory.case(kind, size) for size in _sizes(largest, _QUICK_STEP if quick else _STEP) for kind in STREAMS]
    allocations = [_allocation(device, size) for size in _ALLOCATED_BYTES if size <= largest]
    transfers = _transfers(device, [size for size in _TRANSFERRED_BYTES if size <= largest]) if device.is_cuda else []
    return [*streams, *allocations, *transfers, *([] if device.is_cuda else _beyond_caches(largest))]


def _beyond_caches(largest: int) -> list[BenchmarkCase[Movement]]:
    """A case that says so where there is too little memory for arrays that caches do not hold."""
    caches = last_level_bytes()
    if largest >= 2 * caches:
        return []

    def prepare() -> Callable[[], object]:
        raise RuntimeError(f"there is room for {format_bytes(largest)}, and the caches hold {format_bytes(caches)}")

    key = Movement(kind="beyond", working_bytes=0, moved_bytes=0)
    return [BenchmarkCase(key=key, prepare=prepare, about="memory beyond the caches")]


def _sizes(largest: int, step: int) -> Iterator[int]:
    """Up to the largest, which takes the place of one that is hardly smaller."""
    size = _FIRST_BYTES
    while size * 2 <= largest:
        yield size
        size *= step
    yield largest


# --- streams ----------------------------------------------------------------------------------------------------------


class _Memory:
    """One large array of which all streams use parts. It lives as long as a call that was prepared on it."""

    def __init__(self, device: ProbeDevice, size_bytes: int) -> None:
        self.device, self.size_bytes = device, size_bytes
        self._array: weakref.ref[_Array] | None = None

    def case(self, kind: str, size_bytes: int) -> BenchmarkCase[Movement]:
        stream_bytes = size_bytes // STREAMS[kind] // _LINE_BYTES * _LINE_BYTES
        together = stream_bytes * STREAMS[kind]
        return BenchmarkCase(
            key=Movement(kind=kind, working_bytes=together, moved_bytes=together),
            prepare=partial(self._prepare, kind, stream_bytes),
            about=f"{kind} of {format_bytes(together)}",
        )

    def _prepare(self, kind: str, each_bytes: int) -> Callable[[], object]:
        array = self._array() if self._array is not None else None
        if array is None:
            array = _Array(self.device, self.size_bytes)
            self._array = weakref.ref(array)
        call = _stream(kind, [array.part(number, each_bytes) for number in range(STREAMS[kind])])
        call.array = array
        return call


class _Array:
    def __init__(self, device: ProbeDevice, size_bytes: int) -> None:
        import torch

        self.values = torch.ones(size_bytes // 4, dtype=torch.float32, device=device.torch_device)

    def part(self, number: int, size_bytes: int) -> torch.Tensor:
        return self.values[number * size_bytes // 4 : (number + 1) * size_bytes // 4]


class _Call(partial[object]):
    """A call that keeps the array it works on."""

    array: _Array


def _stream(kind: str, parts: list[torch.Tensor]) -> _Call:
    import torch

    if kind == "copy":
        return _Call(parts[1].copy_, parts[0])
    if kind == "triad":
        return _Call(torch.add, parts[1], parts[2], alpha=0.5, out=parts[0])
    return _Call(parts[0].sum)


# --- allocation and transfers -----------------------------------------------------------------------------------------


def _allocation(device: ProbeDevice, size_bytes: int) -> BenchmarkCase[Movement]:
    """A tensor that is made, written once and given back."""

    def prepare() -> Callable[[], object]:
        import torch

        return partial(torch.ones, size_bytes, dtype=torch.uint8, device=device.torch_device)

    key = Movement(kind="allocate", working_bytes=size_bytes, moved_bytes=size_bytes)
    return BenchmarkCase(key=key, prepare=prepare, about=f"allocation of {format_bytes(size_bytes)}")


def _transfers(device: ProbeDevice, sizes: list[int]) -> list[BenchmarkCase[Movement]]:
    ways = [(direction, pinned) for direction in ("to_device", "to_host") for pinned in (True, False)]
    return [_transfer(device, direction, pinned, size) for size in sizes for direction, pinned in ways]


def _transfer(device: ProbeDevice, direction: str, pinned: bool, size_bytes: int) -> BenchmarkCase[Movement]:
    """A byte counts once, as it crosses the link once."""

    def prepare() -> Callable[[], object]:
        import torch

        there = torch.ones(size_bytes, dtype=torch.uint8, device=device.torch_device)
        here = torch.ones(size_bytes, dtype=torch.uint8, pin_memory=pinned)
        target, source = (there, here) if direction == "to_device" else (here, there)
        return partial(target.copy_, source, non_blocking=pinned)

    kind = f"{direction}_{'pinned' if pinned else 'pageable'}"
    key = Movement(kind=kind, working_bytes=size_bytes, moved_bytes=size_bytes)
    return BenchmarkCase(key=key, prepare=prepare, about=f"{kind} of {format_bytes(size_bytes)}")


# --- results ----------------------------------------------------------------------------------------------------------


def points(samples: Samples[Movement], *, noise: float) -> tuple[BandwidthPoint, ...]:
    """By kind, then by size."""
    order = sorted(samples.passes, key=lambda move: (move.kind, move.working_bytes))
    return tuple(
        BandwidthPoint(
            kind=move.kind,
            working_bytes=move.working_bytes,
            moved_bytes=move.moved_bytes,
            time_ns=samples.estimate(move, noise),
        )
        for move in order
    )


def memory_bytes_per_s(points: tuple[BandwidthPoint, ...]) -> Estimate | None:
    """Beyond the caches: the fastest stream, each at its largest size. None where none was measured.

    STREAM's are copy and triad; on some machines reading alone is faster, and a roof is what nothing exceeds.
    """
    by_kind = [[point for point in points if point.kind == kind] for kind in STREAMS]
    largest = [max(same, key=lambda point: point.working_bytes) for same in by_kind if same]
    return max((point.bytes_per_s for point in largest), key=lambda speed: speed.value, default=None)
