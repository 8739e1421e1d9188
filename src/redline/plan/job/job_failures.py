"""Published failure rates of nodes and ways to recover, with sources; which of them a plan spans by default."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from math import isfinite

import numpy as np

from redline.errors import UsageError
from redline.model.model import Number

# --- three-point estimates --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThreePointEstimate:
    """low <= likely <= high."""

    low: float
    likely: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> "ThreePointEstimate":
        return cls(value, value, value)

    def times(self, factor: float) -> "ThreePointEstimate":
        return self.map(lambda value: value * factor)

    def divided_by(self, other: "ThreePointEstimate") -> "ThreePointEstimate":
        """From the least to the most that the two allow; infinite where something is divided by nothing."""
        return ThreePointEstimate(
            _ratio(self.low, other.high), _ratio(self.likely, other.likely), _ratio(self.high, other.low)
        )

    def map(self, rising: Callable[[float], float]) -> "ThreePointEstimate":
        """What a function that only rises makes of it."""
        return ThreePointEstimate(rising(self.low), rising(self.likely), rising(self.high))


def _ratio(value: float, divisor: float) -> float:
    return value / divisor if divisor else float("inf")


# --- goodput ----------------------------------------------------------------------------------------------------------
# A job fails at a constant rate, whatever it does: works, writes a checkpoint or restarts. It works for `interval_s`,
# then stands still for `checkpoint_s` to write a checkpoint. After a failure it takes `restart_s` until it works
# again (noticed, replaced, started, loaded), and it repeats what it did since the last checkpoint.
#
# With L the rate, R the restart and w = interval + checkpoint, getting from one checkpoint to the next takes on
# average
#
#     e^(L R) (e^(L w) - 1) / L
#
# and goodput is the interval divided by that. It is computed as three factors that each lie between 0 and 1:
#
#     e^(-L R)                 what restarts leave
#     interval / w             what writing checkpoints leaves
#     L w / (e^(L w) - 1)      what repeated work leaves
#
# An argument is a number or a column of numbers. docs/explanation/goodput.md derives it and says what it leaves out.


SECONDS_PER_DAY = 86_400.0

_NEWTON_STEPS = 12  # quadratic from Young's value, which is at most a third too long where checkpoints are short
_ALL_IS_LOST = 1000.0  # failures per interval from which e^-x is 0 in a double


def goodput(*, failures_per_s: Number, interval_s: Number, restart_s: Number, checkpoint_s: Number) -> Number:
    """The share of time that is progress, from 0 to 1. It becomes 0 where the job hardly ever reaches a checkpoint."""
    with np.errstate(over="ignore"):
        restarts = np.exp(-np.multiply(failures_per_s, restart_s))
    return restarts * checkpoint_share(interval_s, checkpoint_s) * _first_time(failures_per_s, interval_s, checkpoint_s)


def checkpoint_share(interval_s: Number, checkpoint_s: Number) -> Number:
    """The share of time without failures that is not spent on writing checkpoints; 1 where they cost nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 / (1 + np.divide(checkpoint_s, interval_s))
    return np.where(np.equal(checkpoint_s, 0), 1.0, share)[()]


def _first_time(failures_per_s: Number, interval_s: Number, checkpoint_s: Number) -> Number:
    """The share of work between restarts that need not be done again: x / (e^x - 1), x failures per interval."""
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.multiply(failures_per_s, np.add(interval_s, checkpoint_s))
    expected = np.where(np.equal(failures_per_s, 0), 0.0, np.minimum(expected, _ALL_IS_LOST))
    with np.errstate(invalid="ignore"):
        share = expected * np.exp(-expected) / -np.expm1(-expected)
    return np.where(expected > 0, share, 1.0)[()]


def best_interval(failures_per_s: Number, checkpoint_s: Number, least_s: Number = 0.0) -> Number:
    """Seconds of work between checkpoints at which goodput is highest, and not below `least_s`.

    Where the derivative of goodput is 0, x + e^-(x + c) = 1, with x = rate * interval and c = rate * checkpoint. The
    left side is convex and Young's x lies above the solution, so Newton's method falls onto it. Goodput has one peak:
    if that is below `least_s`, then `least_s` is best. Without failures the best is never to write one: infinity.
    """
    cost = np.multiply(failures_per_s, checkpoint_s)
    work = np.sqrt(2 * cost)
    for _ in range(_NEWTON_STEPS):
        slope = -np.expm1(-(work + cost))
        with np.errstate(invalid="ignore"):
            work = np.where(slope > 0, work - (work - slope) / slope, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        interval_s = np.where(np.equal(failures_per_s, 0), np.inf, work / failures_per_s)
    return np.maximum(interval_s, least_s)[()]


def mean_time_between_failures(failures_per_s: Number) -> Number:
    """Seconds from one failure to the next on average; infinity where there are none."""
    with np.errstate(divide="ignore"):
        return np.divide(1.0, failures_per_s)


@dataclass(frozen=True, kw_only=True)
class FailureRate:
    """How often a node failed so that the job on it stopped."""

    id: str
    failures_per_node_day: float
    devices_per_node: int = 8
    system: str = ""
    scale: str = ""
    source: str = ""
    note: str = ""
    band: bool = False
    """One of those that a plan spans where the user gives no rate."""

    def __post_init__(self) -> None:
        _require_not_negative("failures per node and day", self.failures_per_node_day)

    def failures_per_s(self, devices: float) -> float:
        """Of a job on that many devices: it stops when any of them fails."""
        return devices / self.devices_per_node * self.failures_per_node_day / SECONDS_PER_DAY


class Writes(StrEnum):
    """Where a job that stands still for a checkpoint puts it."""

    STORAGE = "to storage"
    BACKGROUND = "in the background"  # to host memory; storage has it while the job works on
    MEMORY = "to memory"  # of other nodes


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How a job gets back to work, and what its checkpoints cost."""

    id: str
    restart_s: float
    """From a failure until the job computes again, work that is repeated not counted. A mean, not a median."""
    checkpoint_s: float
    """How long the job stands still for a checkpoint."""
    writes: Writes = Writes.STORAGE
    what: str = ""
    source: str = ""
    band: bool = False
    """One of those that a plan spans where the user says nothing about recovery."""

    def __post_init__(self) -> None:
        _require_not_negative("the seconds of a restart", self.restart_s)
        _require_not_negative("the seconds of a checkpoint", self.checkpoint_s)


@dataclass(frozen=True)
class Published:
    """Everything of failures.toml."""

    rates: tuple[FailureRate, ...]
    """As the rate per device rises."""
    recoveries: tuple[Recovery, ...]
    """As they get faster."""


@cache
def published() -> Published:
    """The rates and recoveries that come with Redline."""
    table = tomllib.loads(files("redline.plan.job").joinpath("failures.toml").read_text(encoding="utf-8"))
    return Published(
        tuple(FailureRate(**record) for record in table["rate"]),
        tuple(Recovery(**{**record, "writes": Writes(record["writes"])}) for record in table["recovery"]),
    )


def band_rates() -> tuple[FailureRate, ...]:
    """A good cluster, a usual one and a bad one."""
    return tuple(rate for rate in published().rates if rate.band)


def band_recoveries() -> tuple[Recovery, ...]:
    """Of jobs that restart by themselves: with checkpoints that they wait for, and with asynchronous ones."""
    return tuple(recovery for recovery in published().recoveries if recovery.band)


def rate_named(name: str) -> FailureRate:
    """By its id, in any case of letters."""
    known = {rate.id: rate for rate in published().rates}
    if name.lower() not in known:
        names = ", ".join(known)
        raise UsageError(f"no published failure rate is called {name!r}: use {names}, or failures per node and day")
    return known[name.lower()]


def recovery_named(name: str) -> Recovery:
    """By its id, in any case of letters."""
    known = {recovery.id: recovery for recovery in published().recoveries}
    if name.lower() not in known:
        raise UsageError(f"no way to recover is called {name!r}: use {', '.join(known)}")
    return known[name.lower()]


def _require_not_negative(what: str, value: float) -> None:
    if not (isfinite(value) and value >= 0):
        raise UsageError(f"{what} must be a number of 0 or more, not {value:g}")
