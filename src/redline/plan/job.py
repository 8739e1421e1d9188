"""What a whole job costs: failures and checkpoints, days, money and energy."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import product
from math import ceil, isfinite

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
        """The range through a function that only rises."""
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
        """Failures of a job on that many devices: it stops when any of them fails."""
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
    table = tomllib.loads(files("redline.plan").joinpath("failures.toml").read_text(encoding="utf-8"))
    return Published(
        tuple(FailureRate(**record) for record in table["rate"]),
        tuple(Recovery(**{**record, "writes": Writes(record["writes"])}) for record in table["recovery"]),
    )


def band_rates() -> tuple[FailureRate, ...]:
    """A good cluster, a usual one and a bad one."""
    return tuple(rate for rate in published().rates if rate.band)


def band_recoveries() -> tuple[Recovery, ...]:
    """Recoveries of jobs that restart by themselves: with checkpoints that they wait for, and asynchronous ones."""
    return tuple(recovery for recovery in published().recoveries if recovery.band)


def rate_named(name: str) -> FailureRate:
    known = {rate.id: rate for rate in published().rates}
    if name.lower() not in known:
        names = ", ".join(known)
        raise UsageError(f"no published failure rate is called {name!r}: use {names}, or failures per node and day")
    return known[name.lower()]


def recovery_named(name: str) -> Recovery:
    known = {recovery.id: recovery for recovery in published().recoveries}
    if name.lower() not in known:
        raise UsageError(f"no way to recover is called {name!r}: use {', '.join(known)}")
    return known[name.lower()]


def _require_not_negative(what: str, value: float) -> None:
    if not (isfinite(value) and value >= 0):
        raise UsageError(f"{what} must be a number of 0 or more, not {value:g}")


ADAM_CHECKPOINT_BYTES = 14.0
"""Per parameter, of mixed precision with Adam: weights in bf16 (2), in fp32 (4), and two moments in fp32 (8)."""
POWER_SHARE = 0.76
"""Of the rated power, while training hard: measured on nodes of 8 H100, arXiv:2506.14551 (0.82 in arXiv:2412.08602)."""

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """What is to be done, on what, and what that is paid with."""

    step_s: ThreePointEstimate
    tokens_per_step: float
    tokens: float
    devices: int
    price_per_device_hour: float | None = None
    device_power_w: float | None = None
    """Rated, of the accelerator alone: hosts, network and storage are not in it."""
    power_share: float = POWER_SHARE
    pue: float = 1.0
    """Power of the building per power of what computes. 1: cooling and conversion are left out."""
    parameters: float | None = None
    checkpoint_bytes_per_parameter: float = ADAM_CHECKPOINT_BYTES
    write_bytes_per_s: float | None = None
    """What storage takes from the whole job."""

    def __post_init__(self) -> None:
        for what, value in (
            ("the step time", self.step_s.low),
            ("tokens per step", self.tokens_per_step),
            ("the number of tokens", self.tokens),
            ("the number of devices", self.devices),
            ("power per device", self.device_power_w),
            ("the share of rated power", self.power_share),
            ("parameters", self.parameters),
            ("bytes of a checkpoint per parameter", self.checkpoint_bytes_per_parameter),
            ("the write bandwidth", self.write_bytes_per_s),
        ):
            if value is not None and not (isfinite(value) and value > 0):
                raise UsageError(f"{what} must be a number above 0, not {value:g}")
        if self.price_per_device_hour is not None and not self.price_per_device_hour >= 0:
            raise UsageError(f"a price per GPU-hour must be 0 or more, not {self.price_per_device_hour:g}")
        if not self.pue >= 1:
            raise UsageError(
                f"PUE is the power of the whole building per power of its computers: 1 or more, not {self.pue:g}"
            )

    @property
    def steps(self) -> int:
        return ceil(self.tokens / self.tokens_per_step)

    @property
    def ideal_s(self) -> ThreePointEstimate:
        """Without failures and without checkpoints."""
        return self.step_s.times(self.steps)

    @property
    def checkpoint_bytes(self) -> float | None:
        return None if self.parameters is None else self.parameters * self.checkpoint_bytes_per_parameter

    @property
    def write_s(self) -> float | None:
        """Until storage has one checkpoint."""
        if self.checkpoint_bytes is None or self.write_bytes_per_s is None:
            return None
        return self.checkpoint_bytes / self.write_bytes_per_s


@dataclass(frozen=True, kw_only=True)
class FailureScenario:
    """The job under one failure rate and one way to recover, with the best time between checkpoints."""

    rate: FailureRate
    recovery: Recovery
    """With what follows from the bandwidth of storage, where that is given."""
    in_band: bool
    failures_per_s: float
    interval_s: float
    goodput: float
    time_s: float
    """Of the whole job, at the likely step time; infinite where it never ends."""

    @property
    def failures(self) -> float:
        """That are to be expected until the job is done."""
        return self.failures_per_s * self.time_s if self.failures_per_s else 0.0

    @property
    def mean_time_between_failures_s(self) -> float:
        return float(mean_time_between_failures(self.failures_per_s))


@dataclass(frozen=True, kw_only=True)
class JobCost:
    """What the whole job takes. Estimates run over the interval of the step time and all cases of the band."""

    job: JobRequest
    cases: tuple[FailureScenario, ...]
    goodput: ThreePointEstimate
    time_s: ThreePointEstimate

    @property
    def ideal_days(self) -> ThreePointEstimate:
        return self.job.ideal_s.times(1 / SECONDS_PER_DAY)

    @property
    def days(self) -> ThreePointEstimate:
        return self.time_s.times(1 / SECONDS_PER_DAY)

    @property
    def device_hours(self) -> ThreePointEstimate:
        """Devices are paid for while the job restarts, too."""
        return self.time_s.times(self.job.devices / _SECONDS_PER_HOUR)

    @property
    def money(self) -> ThreePointEstimate | None:
        """In the currency of the price."""
        price = self.job.price_per_device_hour
        return None if price is None else self.device_hours.times(price)

    @property
    def energy_wh(self) -> ThreePointEstimate | None:
        """Energy of the accelerators: rated power, times the share of it that training draws, times PUE."""
        if self.job.device_power_w is None:
            return None
        return self.device_hours.times(self.job.device_power_w * self.job.power_share * self.job.pue)


def whole_job(job: JobRequest, rates: tuple[FailureRate, ...] = (), recoveries: tuple[Recovery, ...] = ()) -> JobCost:
    """The cost of a job. What is not given is spanned: published failure rates, and recoveries of jobs of today.

    Cases are shown for every recovery; only those of the band, or those that were given, are in the estimates. The
    likely case is the middle rate with the first recovery.
    """
    rates = rates or band_rates()
    shown = recoveries or published().recoveries
    spanned = recoveries or band_recoveries()
    cases = tuple(_case(job, rate, recovery, recovery in spanned) for rate, recovery in product(rates, shown))
    spread = _spread(cases, rates, spanned[0])
    return JobCost(job=job, cases=cases, goodput=spread, time_s=job.ideal_s.divided_by(spread))


def _case(job: JobRequest, rate: FailureRate, recovery: Recovery, in_band: bool) -> FailureScenario:
    failures_per_s = rate.failures_per_s(job.devices)
    cost = _with_storage(recovery, job.write_s)
    interval_s = _interval(job, failures_per_s, cost)
    share = float(
        goodput(
            failures_per_s=failures_per_s,
            interval_s=interval_s,
            restart_s=cost.restart_s,
            checkpoint_s=cost.checkpoint_s,
        )
    )
    return FailureScenario(
        rate=rate,
        recovery=cost,
        in_band=in_band,
        failures_per_s=failures_per_s,
        interval_s=interval_s,
        goodput=share,
        time_s=job.ideal_s.divided_by(ThreePointEstimate.exactly(share)).likely,
    )


def _with_storage(recovery: Recovery, write_s: float | None) -> Recovery:
    """What the bandwidth of storage makes of it.

    A checkpoint in the background is good for nothing until it is stored. A failure within that time, write / interval
    of all, loses one interval more: on average, each failure costs the time to write on top.
    """
    if write_s is None or recovery.writes is Writes.MEMORY:
        return recovery
    if recovery.writes is Writes.BACKGROUND:
        return replace(recovery, restart_s=recovery.restart_s + write_s)
    return replace(recovery, checkpoint_s=write_s)


def _interval(job: JobRequest, failures_per_s: float, recovery: Recovery) -> float:
    """The best, within reason: at least a step, at most the job, and no checkpoint before the last one is stored."""
    least_s = job.step_s.likely
    if recovery.writes is Writes.BACKGROUND and job.write_s is not None:
        least_s = max(least_s, job.write_s)
    longest_s = max(job.ideal_s.likely, least_s)
    return min(float(best_interval(failures_per_s, recovery.checkpoint_s, least_s)), longest_s)


def _spread(cases: tuple[FailureScenario, ...], rates: tuple[FailureRate, ...], likely: Recovery) -> ThreePointEstimate:
    """Goodput from the worst to the best case of the band."""
    shares = [case.goodput for case in cases if case.in_band]
    middle = sorted(rates, key=lambda rate: rate.failures_per_s(1))[(len(rates) - 1) // 2]
    chosen = next(case for case in cases if case.rate == middle and case.recovery.id == likely.id)
    return ThreePointEstimate(min(shares), chosen.goodput, max(shares))
