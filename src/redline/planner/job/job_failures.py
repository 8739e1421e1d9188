"""Published failure rates of nodes and ways to recover, with sources; which of them a plan spans by default."""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from math import isfinite

from redline.errors import UsageError
from redline.planner.job.goodput import SECONDS_PER_DAY


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
    table = tomllib.loads(files("redline.planner.job").joinpath("failures.toml").read_text(encoding="utf-8"))
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
