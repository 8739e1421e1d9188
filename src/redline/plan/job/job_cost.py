"""From the time of a step to the whole job: days, device-hours, money, energy, with what failures take."""

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, isfinite

from redline.errors import UsageError
from redline.plan.job.job_failures import (
    SECONDS_PER_DAY,
    FailureRate,
    Recovery,
    ThreePointEstimate,
    Writes,
    band_rates,
    band_recoveries,
    best_interval,
    goodput,
    mean_time_between_failures,
    published,
)

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
        """Of the accelerators: rated power, times the share of it that training draws, times PUE."""
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
