"""The ledger: every nanosecond of every step of a rank in exactly one account, adding up to the step exactly."""

from typing import Self

import numpy as np
import numpy.typing as npt

from redline.ledger.accounts import ACCOUNTS, BUSY, IDLE, Account, place
from redline.ledger.rank.activity import DeviceActivity
from redline.ledger.rank.idle import Idle
from redline.ledger.rank.kernels import Floats, RatedKernels, needs
from redline.ledger.rank.step_borders import step_borders
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Timeline
from redline.values import dataclass

Amounts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Accounts of one rank by step, and of the time outside steps; nanoseconds."""

    start_ns: I64  # of each step, inside the window; on the device, where that lags behind the host
    end_ns: I64
    steps: Amounts  # [step, account]
    outside: Amounts  # [account]
    window_ns: int

    @property
    def total(self) -> Amounts:
        """Of the whole window."""
        total: Amounts = self.steps.sum(axis=0) + self.outside
        return total

    def of(self, account: Account) -> int:
        """Of the whole window."""
        return int(self.total[place(account)])

    @property
    def busy_ns(self) -> int:
        return sum(map(self.of, BUSY))

    def moved(self, source: Account, target: Account, steps: Amounts, outside: int) -> Self:
        """With amounts put from one account into another."""
        changed, beyond = self.steps.copy(), self.outside.copy()
        for account, sign in ((source, -1), (target, 1)):
            changed[:, place(account)] += sign * steps
            beyond[place(account)] += sign * outside
        return type(self)(
            start_ns=self.start_ns, end_ns=self.end_ns, steps=changed, outside=beyond, window_ns=self.window_ns
        )

    def self_check(self) -> None:
        """What every ledger promises, as assertions."""
        _expect(self.steps.shape == (len(self.start_ns), len(ACCOUNTS)), "one row per step, one column per account")
        _expect(bool((self.steps >= 0).all() and (self.outside >= 0).all()), "no account is negative")
        _expect(bool((self.steps.sum(axis=1) == self.end_ns - self.start_ns).all()), "accounts add up to each step")
        _expect(int(self.total.sum()) == self.window_ns, "accounts add up to the window")


def ledger_of(timeline: Timeline, activity: DeviceActivity, idle: Idle, kernels: RatedKernels) -> Ledger:
    """Waiting for peers is still in the transfer account: it takes the other ranks to tell them apart."""
    lo, hi = activity.window_ns
    start_ns, end_ns = step_borders(timeline, activity.window_ns)
    between = Intervals.union_of(start_ns, end_ns).gaps(lo, hi)
    starts, ends = np.concatenate([start_ns, between.start]), np.concatenate([end_ns, between.end])
    amounts = amounts_within(timeline, activity, idle, kernels, (starts, ends))
    steps, outside = amounts[: len(start_ns)], amounts[len(start_ns) :].sum(axis=0)
    ledger = Ledger(start_ns=start_ns, end_ns=end_ns, steps=steps, outside=outside, window_ns=hi - lo)
    ledger.self_check()
    return ledger


def amounts_within(
    timeline: Timeline, activity: DeviceActivity, idle: Idle, kernels: RatedKernels, periods: tuple[I64, I64]
) -> Amounts:
    """Accounts of each period, given by starts and ends, as [period, account]."""
    amounts = np.zeros((len(periods[0]), len(ACCOUNTS)), np.int64)
    for account, time in {
        Account.TRANSFER: activity.communicating,
        Account.COPY: activity.copying,
        **{account: idle.accounts[account] for account in IDLE},
    }.items():
        amounts[:, place(account)] = time.overlap_with(*periods)
    rated = activity.compute.where(kernels.rated).overlap_with(*periods)
    amounts[:, place(Account.UNRATED)] = activity.computing.overlap_with(*periods) - rated
    _share_out(amounts, rated, timeline, activity, kernels, periods)
    return amounts


def _share_out(
    amounts: Amounts,
    rated: I64,
    timeline: Timeline,
    activity: DeviceActivity,
    kernels: RatedKernels,
    periods: tuple[I64, I64],
) -> None:
    """Rated compute time of each period into math, memory and kernel loss."""
    math, memory = (_within(need, timeline, activity, periods) for need in needs(kernels))
    math_ns = np.minimum(np.round(math).astype(np.int64), rated)
    memory_ns = np.minimum(np.round(memory).astype(np.int64), rated - math_ns)
    amounts[:, place(Account.MATH)] = math_ns
    amounts[:, place(Account.MEMORY)] = memory_ns
    amounts[:, place(Account.KERNEL_LOSS)] = rated - math_ns - memory_ns


def _within(share: Floats, timeline: Timeline, activity: DeviceActivity, periods: tuple[I64, I64]) -> Floats:
    """Needed time of all pieces inside each period; kernels that overlap each need their own."""
    compute = activity.compute
    on_cpu = activity.device == "cpu"
    start_ns = compute.start_ns if on_cpu else timeline.spans.start_ns[compute.row]
    end_ns = compute.end_ns if on_cpu else timeline.spans.end_ns[compute.row]
    starts, ends = periods
    return _needed_before(ends, start_ns, end_ns, share) - _needed_before(starts, start_ns, end_ns, share)


def _needed_before(at_ns: I64, start_ns: I64, end_ns: I64, share: Floats) -> Floats:
    """What all pieces together needed up to each time, as each needs its share of every instant that it lasts."""
    total = np.zeros(len(at_ns))
    for edge_ns, sign in ((start_ns, 1.0), (end_ns, -1.0)):
        order = np.argsort(edge_ns, kind="stable")
        passed = np.searchsorted(edge_ns[order], at_ns, side="right")
        shares = np.append(0.0, np.cumsum(share[order]))[passed]
        weighted = np.append(0.0, np.cumsum(share[order] * edge_ns[order]))[passed]
        total += sign * (shares * at_ns - weighted)
    return total


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise of a ledger: {promise}")
