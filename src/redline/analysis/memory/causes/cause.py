"""A cause for what fills the memory, with the most that mending it can save, and what the rules look at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from redline.analysis.memory.device_memory import DeviceMemory
from redline.analysis.memory.memory_accounts import MemoryAccount
from redline.numerics import Numerics


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

    def held(self, account: MemoryAccount) -> int:
        return self.device.shown.accounts[account]

    def share(self, account: MemoryAccount) -> float:
        """Of what is reserved."""
        return self.held(account) / max(self.device.shown.reserved_bytes, 1)

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
    """All of an account, if it is at least this share of what is reserved."""
    if full.share(account) >= least:
        yield MemoryCause(
            code=code,
            saves_bytes=full.held(account),
            site=full.largest_site(account),
            figures={"share": full.share(account)},
        )
