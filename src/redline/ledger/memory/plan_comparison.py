"""The memory that a plan predicts beside the peak that was measured, account by account."""

from collections.abc import Callable, Mapping, Sequence

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.device_memory import DeviceMemory
from redline.plan.train.layout import Layout
from redline.values import dataclass

ACCOUNT_OF_PART: Mapping[str, MemoryAccount] = {
    "weights_bytes": MemoryAccount.PARAMETERS,
    "gradients_bytes": MemoryAccount.GRADIENTS,
    "optimizer_bytes": MemoryAccount.OPTIMIZER_STATES,
    "activations_bytes": MemoryAccount.ACTIVATIONS,
    "head_bytes": MemoryAccount.LOGITS,
    "gathers_bytes": MemoryAccount.COMMUNICATION,
    "temporaries_bytes": MemoryAccount.TEMPORARIES,
    "allocator_bytes": MemoryAccount.CACHED,
}
"""By the fields of `MemoryUse`. Accounts that are not here (inputs, unknown) are measured and never predicted."""
OUTSIDE_PART = "communicators_bytes"
"""Of no account: it is outside of torch's allocator, with the CUDA context."""


@dataclass(frozen=True, kw_only=True)
class PlannedMemory:
    """The peak on the fullest device as a plan predicts it, and what the plan is of."""

    file: str  # "" where the plan was never written
    model: str
    machine: str
    dtype: str
    devices: int
    layout: Layout
    micro_batches: int
    accounts: Mapping[MemoryAccount, int]  # those that plans know
    outside_bytes: int  # of the allocator: the context and communicators

    @property
    def in_use_bytes(self) -> int:
        return sum(size for account, size in self.accounts.items() if account is not MemoryAccount.CACHED)


@dataclass(frozen=True, kw_only=True)
class ComparedBytes:
    """One amount, as far as each side knows it."""

    predicted_bytes: int | None
    measured_bytes: int | None

    @property
    def difference_bytes(self) -> int | None:
        """Of the plan: what it predicts too much."""
        if self.predicted_bytes is None or self.measured_bytes is None:
            return None
        return self.predicted_bytes - self.measured_bytes

    @property
    def difference_share(self) -> float | None:
        """Of what was measured."""
        difference = self.difference_bytes
        return difference / self.measured_bytes if difference is not None and self.measured_bytes else None


@dataclass(frozen=True, kw_only=True)
class PlanComparison:
    """A plan beside the peak of one device."""

    plan: PlannedMemory
    device: DeviceMemory
    ranks: int  # devices that this one has the largest peak of
    accounts: Mapping[MemoryAccount, ComparedBytes]  # what is in use; the largest first
    in_use: ComparedBytes
    cached: ComparedBytes
    outside: ComparedBytes


def compare_plan(
    plan: PlannedMemory, devices: Sequence[DeviceMemory], outside_bytes: Callable[[DeviceMemory], int | None]
) -> PlanComparison:
    """With the device that has the largest peak; of accelerators if there are any, since their hosts are not planned.

    `outside_bytes` says what was outside of torch on a device, or None.
    """
    accelerators = [device for device in devices if not device.is_host]
    alike = accelerators or devices
    fullest = max(alike, key=lambda device: device.peak.live_bytes)
    measured = fullest.peak.accounts
    return PlanComparison(
        plan=plan,
        device=fullest,
        ranks=len(alike),
        accounts=_accounts(plan, measured),
        in_use=ComparedBytes(predicted_bytes=plan.in_use_bytes, measured_bytes=fullest.peak.live_bytes),
        cached=ComparedBytes(
            predicted_bytes=plan.accounts[MemoryAccount.CACHED],
            measured_bytes=None if fullest.is_host else measured[MemoryAccount.CACHED],
        ),
        outside=ComparedBytes(predicted_bytes=plan.outside_bytes, measured_bytes=outside_bytes(fullest)),
    )


def _accounts(plan: PlannedMemory, measured: Mapping[MemoryAccount, int]) -> dict[MemoryAccount, ComparedBytes]:
    """Without those that are empty on both sides."""
    named = [
        account
        for account in MemoryAccount
        if account is not MemoryAccount.CACHED and (plan.accounts.get(account) or measured[account])
    ]
    named.sort(key=lambda account: -max(plan.accounts.get(account, 0), measured[account]))
    return {
        account: ComparedBytes(predicted_bytes=plan.accounts.get(account), measured_bytes=measured[account])
        for account in named
    }


def planned_accounts(parts: Mapping[str, float]) -> dict[MemoryAccount, int]:
    """Whole bytes by account, of parts by the names of `MemoryUse`."""
    return {account: round(parts[part]) for part, account in ACCOUNT_OF_PART.items()}
