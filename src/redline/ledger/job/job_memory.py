"""The memory of a job: every device of every rank at its peak, the fullest, what grows, and why."""

from collections.abc import Sequence
from dataclasses import replace

from redline.errors import InputError
from redline.ledger.memory.causes import MemoryCause, causes_of_fullest, fullest_device
from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.memory.rank_memory import memory_of_rank
from redline.ledger.rank.digest import Digest
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class UntoldMemory:
    """A rank whose memory was recorded and is left out."""

    rank: int
    why: str


@dataclass(frozen=True, kw_only=True)
class JobMemory:
    """Of ranks whose allocations were recorded."""

    devices: tuple[DeviceMemory, ...]  # in order of rank; of all but the fullest, who holds it is left out
    causes: tuple[MemoryCause, ...]  # of the fullest
    left_out: tuple[UntoldMemory, ...]

    @property
    def fullest(self) -> DeviceMemory | None:
        """None where nothing is known of any rank."""
        return fullest_device(self.devices) if self.devices else None

    @property
    def growing(self) -> DeviceMemory | None:
        """The device to which every step adds most; None where nothing grows."""
        growing = [device for device in self.devices if device.growth]
        return max(growing, key=lambda device: device.growth_bytes_per_step) if growing else None


def job_memory(ranks: Sequence[Digest]) -> JobMemory:
    """One rank that cannot be told costs that rank alone."""
    devices: list[DeviceMemory] = []
    left_out: list[UntoldMemory] = []
    for rank in ranks:
        try:
            devices += memory_of_rank(rank) if rank.memory else ()
        except InputError as error:
            left_out.append(UntoldMemory(rank=rank.origin.rank, why=str(error)))
    first = fullest_device(devices) if devices else None
    return JobMemory(
        devices=tuple(device if device is first else _without_holders(device) for device in devices),
        causes=causes_of_fullest(devices) if devices else (),
        left_out=tuple(left_out),
    )


def _without_holders(device: DeviceMemory) -> DeviceMemory:
    """Of thousands of ranks these are most of what there is to hold."""
    return replace(device, peak=replace(device.peak, holders=()), modules=())
