"""A cause for what fills the memory, with the most that mending it can save, and what the rules look at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.ledger.rank.host_phases import Phase
from redline.numerics import Numerics

_OF_POSITIONS = (MemoryAccount.ACTIVATIONS, MemoryAccount.LOGITS, MemoryAccount.INPUTS)
"""Accounts that grow with the batch and its length; attention by hand with the square of the length."""
_UNEVEN = 0.1  # of what the median of the others has in use


@dataclass(frozen=True, kw_only=True)
class MemoryCause:
    """One cause at the peak of one device."""

    code: str
    saves_bytes: int  # of what is in use or reserved at that moment, at most
    site: str = ""  # where most of it is made
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FullMemory:
    """What the rules look at: the device that is fullest, and those of the other ranks."""

    device: DeviceMemory
    others: tuple[DeviceMemory, ...]  # of the same kind: hosts, or accelerators
    capacity_bytes: int = 0  # of the device; 0 where it is not known

    def held(self, account: MemoryAccount) -> int:
        return self.device.shown.accounts[account]

    def needed(self, account: MemoryAccount) -> int:
        """Without what other causes tell of: left by earlier steps, held by this rank alone, or padding."""
        needed = self.held(account) - self.device.evidence.earlier_bytes.get(account, 0)
        if self.is_uneven:
            needed = min(needed, round(median(device.shown.accounts[account] for device in self.others)))
        return round(needed * self.device.used_share**2) if account in _OF_POSITIONS else needed

    @property
    def more_bytes(self) -> float:
        """In use beyond the median of the other ranks."""
        live_bytes = self.device.peak.live_bytes
        return live_bytes - median([device.peak.live_bytes for device in self.others] or [live_bytes])

    @property
    def is_uneven(self) -> bool:
        """One rank holds far more than the others."""
        return self.more_bytes >= _UNEVEN * (self.device.peak.live_bytes - self.more_bytes) > 0

    @property
    def positions_bytes(self) -> int:
        """What grows with the batch; temporaries of the optimizer do not."""
        is_of_parameters = self.device.evidence.phase is Phase.OPTIMIZER
        temporaries = 0 if is_of_parameters else self.held(MemoryAccount.TEMPORARIES)
        return sum(map(self.held, _OF_POSITIONS)) + temporaries

    def share(self, size_bytes: float) -> float:
        """Of what is reserved."""
        return size_bytes / max(self.device.shown.reserved_bytes, 1)

    def largest_site(self, account: MemoryAccount) -> str:
        return next((holder.site for holder in self.device.shown.holders if holder.account is account), "")

    @property
    def trains(self) -> bool:
        """Gradients or states were seen at some time."""
        kinds = (MemoryAccount.GRADIENTS, MemoryAccount.OPTIMIZER_STATES, MemoryAccount.BACKWARD)
        return any(kind in self.device.course.accounts for kind in kinds)


@dataclass(frozen=True, kw_only=True)
class MemoryRule:
    """Looks for one cause; its code has a page among those of the findings."""

    code: str
    numerics: Numerics  # what the fix does to results
    find: Callable[[FullMemory], Iterator[MemoryCause]]


def account_cause(full: FullMemory, code: str, account: MemoryAccount, least: float) -> Iterator[MemoryCause]:
    """All that is needed of an account, if it is at least this share of what is reserved."""
    needed = full.needed(account)
    if full.share(needed) >= least:
        yield MemoryCause(
            code=code, saves_bytes=needed, site=full.largest_site(account), figures={"share": full.share(needed)}
        )
