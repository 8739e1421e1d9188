"""The device to look at among several, and why its memory is as full as it is."""

from collections.abc import Sequence

from redline.ledger.memory.causes import FullMemory, MemoryCause, memory_causes
from redline.ledger.memory.device_memory import DeviceMemory


def fullest_device(devices: Sequence[DeviceMemory]) -> DeviceMemory:
    """One that ran out, else the one that held most."""
    return max(devices, key=lambda device: (device.failure is not None, device.shown.live_bytes))


def like_devices(device: DeviceMemory, devices: Sequence[DeviceMemory]) -> tuple[DeviceMemory, ...]:
    """The others of its kind: hosts, or accelerators."""
    return tuple(other for other in devices if other is not device and other.is_host == device.is_host)


def causes_of_fullest(devices: Sequence[DeviceMemory], device_bytes: int = 0) -> tuple[MemoryCause, ...]:
    """`device_bytes`: the memory of a device, where somebody knows better than the trace."""
    first = fullest_device(devices)
    capacity_bytes = device_bytes or first.capacity_bytes
    return memory_causes(FullMemory(device=first, others=like_devices(first, devices), capacity_bytes=capacity_bytes))


def peaks_by_rank(devices: Sequence[DeviceMemory]) -> dict[int, int]:
    """What each rank has in use at its peak, on the fullest of its devices."""
    peaks: dict[int, int] = {}
    for device in devices:
        rank = -1 if device.rank is None else device.rank
        peaks[rank] = max(peaks.get(rank, 0), device.peak.live_bytes)
    return peaks
