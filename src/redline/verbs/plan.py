"""`redline plan`: what a job should cost before it runs, the best way to run it, and how far plans can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from redline.errors import ParameterError, UsageError
from redline.hardware.profile import find_machine
from redline.planner.serve import plan as serving
from redline.planner.serve.plan import ServingRequest
from redline.planner.serve.serving_defaults import ENGINE, LOADS, SIZES
from redline.planner.train.layout import Layout
from redline.planner.train.search.plan import TrainingRequest
from redline.planner.train.training_choices import ACCEPTED_CHANCE, BY, EXECUTIONS, RECOMPUTES, SCHEDULES, TOP
from redline.planner.validation.validate import validate
from redline.progress import Progress, silent
from redline.storage import path_of
from redline.verbs.plan_job import price_job
from redline.verbs.plan_measured import measured_step
from redline.verbs.plan_measured_training import measured_training
from redline.verbs.plan_model import find_model, find_workload
from redline.verbs.plan_results import PlannedServing, PlannedTraining, ValidatedPlans
from redline.verbs.plan_sizes import plan_sizes

Constraint = float | str | Sequence[float | str]

LAYOUT = tuple(field.name for field in fields(Layout) if field.name != "expert_tp")
NAMED: Mapping[str, Mapping[str, int]] = {"schedule": SCHEDULES, "recompute": RECOMPUTES, "execution": EXECUTIONS}


def plan_training(  # noqa: PLR0913 (all that can be known of a job; nearly all of it has a default)
    model: str | Path | None,
    *,
    numbers: Mapping[str, float] | None = None,
    machine: str,
    gpus: int | Sequence[int],
    batch: int,
    sequence: int | None = None,
    precision: str = "bf16",
    stack: str | None = None,
    layout: Mapping[str, Constraint] | None = None,
    footprint: Mapping[str, float] | None = None,
    gpus_per_node: int = 0,
    nic_gbit: float = 0.0,
    by: str = BY[0],
    accept_chance: float = ACCEPTED_CHANCE,
    top: int = TOP,
    measured: str | Path | None = None,
    measured_layout: str | None = None,
    tokens: float | None = None,
    price: float | None = None,
    failures: float | str | None = None,
    recovery: str | None = None,
    storage_bytes_per_s: float | None = None,
    pue: float | None = None,
    progress: Progress = silent,
) -> PlannedTraining:
    """What a training job should cost, and the best layout of all that `layout` allows.

    `measured` is a step of this job on this machine: a run, trace or digest, or numbers such as "step=1.52s,dp=8,
    batch=64"; `measured_layout` says in the same form what a recording does not. The constants are fitted to it.
    """
    sizes = [gpus] if isinstance(gpus, int) else list(gpus)
    _refuse(sizes, by)
    _refuse_without_tokens(
        tokens, price=price, failures=failures, recovery=recovery, storage_bytes_per_s=storage_bytes_per_s, pue=pue
    )
    workload = find_workload(None if model is None else str(model), numbers or {})
    request = TrainingRequest(
        workload=workload,
        machine=find_machine(machine),
        devices=sizes[0],
        sequence=workload.sequence_length(sequence),
        sequences=batch,
        dtype=precision,
        stack=stack or workload.usual_stack,
        devices_per_node=gpus_per_node,
        nic_bytes_per_s=nic_gbit * 1e9 / 8,
        fixed=dict(_fixed(layout or {})),
        footprint=footprint or {},
        accepted_chance=accept_chance,
        top=top,
    )
    if measured is not None:
        step = measured_training(measured, workload, request.sequence, layout=measured_layout, machine=machine)
        request = replace(request, measured=step)
    elif measured_layout is not None:
        raise ParameterError("measured_layout", " is of a measured step; give measured as well")
    sized = plan_sizes(request, sizes, by=by, progress=progress)
    job = price_job(
        sized.chosen,
        tokens=tokens,
        price=price,
        failures=None if failures is None else str(failures),
        recovery=recovery,
        write_bytes_per_s=storage_bytes_per_s,
        pue=pue or 1.0,
    )
    return PlannedTraining(plan=sized.chosen, job=job, sizes=sized.plans, refused=sized.refused)


def plan_serving(  # noqa: PLR0913 (as above)
    model: str | Path | None,
    *,
    numbers: Mapping[str, float] | None = None,
    machine: str,
    prompt: int,
    output_tokens: int,
    gpus: int | None = None,
    tp: Sequence[int] = SIZES,
    precision: Sequence[str] = ("bf16",),
    cache: str = "bf16",
    engine: str = ENGINE,
    concurrency: Sequence[int] = LOADS,
    max_ttft_s: float | None = None,
    max_tpot_s: float | None = None,
    price: float | None = None,
    measured: str | Path | None = None,
) -> PlannedServing:
    """What serving a model gives its users, and the best way to do it within the limits.

    `measured` is a run of an engine on this machine: its step stands in for constants that were fitted on others.
    """
    step = None if measured is None else measured_step(path_of(measured), machine)
    engine = engine if step is None else step.engine
    request = ServingRequest(
        model=find_model(None if model is None else str(model), numbers or {}),
        machine=find_machine(machine),
        prompt=prompt,
        output=output_tokens,
        engine=engine,
        dtypes=tuple(precision),
        cache_dtype=cache,
        sizes=tuple(tp),
        loads=tuple(concurrency),
        devices=gpus,
        price=price,
        most_ttft_s=max_ttft_s,
        most_tpot_s=max_tpot_s,
        measured=step,
    )
    return PlannedServing(plan=serving.plan_serving(request))


def validate_plans(progress: Progress = silent) -> ValidatedPlans:
    """How well plans predict the published measurements that come with Redline."""
    return ValidatedPlans(validation=validate(progress))


def _refuse(sizes: Sequence[int], by: str) -> None:
    if not sizes or min(sizes) < 1:
        raise ParameterError("gpus", " is a number of 1 or more, or a list of such numbers")
    if by not in BY:
        raise ParameterError("by", f" {by}: there is no such choice; there are: {', '.join(BY)}")


def _refuse_without_tokens(tokens: float | None, **of_whole_job: float | str | None) -> None:
    given = next((name for name, value in of_whole_job.items() if value is not None), None)
    if tokens is None and given is not None:
        raise ParameterError(given, " is for the whole job; give the number of tokens to train on as well")


def _fixed(layout: Mapping[str, Constraint]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Names as numbers, one value as a list of one."""
    for name, constraint in layout.items():
        if name not in LAYOUT:
            raise UsageError(f"a layout has no {name!r}; it has: {', '.join(LAYOUT)}")
        values = [constraint] if isinstance(constraint, str | int | float) else list(constraint)
        yield name, tuple(_number(name, value) for value in values)


def _number(name: str, value: float | str) -> float:
    if not isinstance(value, str):
        return float(value)
    known = NAMED.get(name, {})
    if value not in known:
        raise ParameterError(name, f" {value}: " + (f"there are: {', '.join(known)}" if known else "give a number"))
    return float(known[value])
