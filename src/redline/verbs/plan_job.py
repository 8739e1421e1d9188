"""What a planned training job costs as a whole: days, money, energy, with failures as published or as given."""

from __future__ import annotations

from math import isfinite

from redline.errors import UsageError
from redline.planner.job.estimate import ThreePointEstimate
from redline.planner.job.job_cost import JobCost, JobRequest, whole_job
from redline.planner.job.job_failures import FailureRate, Recovery, rate_named, recovery_named
from redline.planner.train.search.training_plan import TrainingPlan


def price_job(
    plan: TrainingPlan,
    *,
    tokens: float | None,
    price: float | None = None,
    failures: str | None = None,
    recovery: str | None = None,
    write_bytes_per_s: float | None = None,
    pue: float = 1.0,
) -> JobCost | None:
    """None where the number of tokens is not known.

    `failures` and `recovery` are names of published ones, or numbers; without them a band of published ones.
    """
    if tokens is None:
        return None
    power = plan.machine.power_w
    best = plan.best
    job = JobRequest(
        step_s=ThreePointEstimate(best.step_low_s, best.step_s, best.step_high_s),
        tokens_per_step=plan.tokens_per_step,
        tokens=tokens,
        devices=plan.devices,
        price_per_device_hour=price,
        device_power_w=None if power is None else power.value,
        pue=pue,
        parameters=plan.parameters,
        write_bytes_per_s=write_bytes_per_s,
    )
    rates = () if failures is None else (_rate(failures, plan.devices_per_node),)
    return whole_job(job, rates, () if recovery is None else (_recovery(recovery),))


def _rate(text: str, devices_per_node: int) -> FailureRate:
    """A number is failures per node and day."""
    number = _number(text)
    if number is None:
        return rate_named(text)
    return FailureRate(id="given", failures_per_node_day=number, devices_per_node=devices_per_node)


def _recovery(text: str) -> Recovery:
    """Two numbers are seconds to restart, and seconds that a checkpoint takes."""
    restart, comma, save = text.partition(",")
    if not comma:
        return recovery_named(text)
    seconds = _number(restart), _number(save)
    if seconds[0] is None or seconds[1] is None:
        raise UsageError(f"a recovery of {text!r} makes no sense; give two times in seconds, such as 600,6")
    return Recovery(id="given", restart_s=seconds[0], checkpoint_s=seconds[1])


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
