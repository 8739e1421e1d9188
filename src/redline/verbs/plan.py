"""`redline plan`: what a job should cost before it runs, the best way to run it, and how far plans can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

from redline.errors import ParameterError, UsageError
from redline.hardware.profile import find_machine
from redline.model.huggingface import changed, describe, read_model
from redline.model.model import Model
from redline.plan.accuracy import accuracy_of
from redline.plan.job import (
    FailureRate,
    JobCost,
    JobRequest,
    Recovery,
    ThreePointEstimate,
    rate_named,
    recovery_named,
    whole_job,
)
from redline.plan.serve import plan as serving
from redline.plan.serve.plan import ServingRequest
from redline.plan.serve.serving_defaults import ENGINE, LOADS, SIZES
from redline.plan.train.layout import Layout
from redline.plan.train.search import plan as training
from redline.plan.train.search.plan import TrainingPlan, TrainingRequest, refuse_impossible
from redline.plan.train.training_choices import ACCEPTED_CHANCE, BY, NAMED, TOP
from redline.plan.train.workload import Transformer, Workload
from redline.progress import Progress, ProgressStage, silent
from redline.storage import path_of
from redline.verbs.plan_measured import measured_step, measured_training
from redline.verbs.plan_results import PlannedServing, PlannedTraining, ValidatedPlans

Constraint = float | str | Sequence[float | str]

LAYOUT = tuple(field.name for field in fields(Layout) if field.name != "expert_tp")


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
    whole: dict[str, Any] = {
        "price": price, "failures": failures, "recovery": recovery, "storage_bytes_per_s": storage_bytes_per_s,
        "pue": pue,
    }  # fmt: skip
    given = next((name for name, value in whole.items() if value is not None), None)
    if tokens is None and given is not None:
        raise ParameterError(given, " is for the whole job; give the number of tokens to train on as well")
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
    plans, refused = plan_sizes(request, sizes, by, progress)
    best = max(plans, key=lambda plan: _merit(plan, by))
    job = None if tokens is None else price_job(best, tokens, **whole)
    return PlannedTraining(plan=best, job=job, sizes=plans, refused=refused)


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


def validate_plans() -> ValidatedPlans:
    """How well plans predict the published measurements that come with Redline."""
    return ValidatedPlans(validation=accuracy_of("validation"))


def _refuse(sizes: Sequence[int], by: str) -> None:
    if not sizes or min(sizes) < 1:
        raise ParameterError("gpus", " is a number of 1 or more, or a list of such numbers")
    if by not in BY:
        raise ParameterError("by", f" {by}: there is no such choice; there are: {', '.join(BY)}")


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


NEEDED = ("layers", "hidden", "heads", "vocab")


def find_model(source: str | None, numbers: Mapping[str, float]) -> Model:
    """The model of a known name or a config.json, with these numbers in the place of its own; or of numbers alone."""
    unknown = next((name for name in numbers if name not in {field.name for field in fields(Model)}), None)
    if unknown:
        raise UsageError(f"a model has no number {unknown!r}; it has layers, hidden, heads, vocab, ffn and so on")
    if source is None:
        model = describe(**_whole(numbers))
    else:
        model = changed(read_model(source), **numbers) if numbers else read_model(source)
    _refuse_odd(model, numbers)
    return model


def _whole(numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers that describe a model alone. All layers have experts but those that are said to be dense."""
    needed = (*NEEDED, "experts_per_token") if "experts" in numbers else NEEDED
    missing = [name for name in needed if name not in numbers]
    if missing:
        raise ParameterError(
            "model",
            " is missing: give a known name or a config.json,\n"
            f"or describe the model by numbers; missing: {', '.join(missing)}",
        )
    whole = dict(numbers)
    if "experts" in whole:
        whole["moe_layers"] = whole["layers"] - whole.pop("dense_layers", 0)
        whole.setdefault("expert_ffn", whole.get("ffn", 0))
    return whole


def _refuse_odd(model: Model, numbers: Mapping[str, float]) -> None:
    """Numbers that make no model together."""
    if model.heads % model.kv_heads:
        raise ParameterError("kv_heads", f" {model.kv_heads:g}: that does not divide the {model.heads:g} heads")
    if model.experts_per_token > model.experts:
        raise ParameterError("experts_per_token", f" {model.experts_per_token:g}: there are {model.experts:g} experts")
    if "experts" in numbers and not model.moe_layers:
        raise ParameterError(
            "experts",
            f" changes nothing: no layer of {model.name or 'this model'} has experts;\n"
            f"describe a mixture of experts by numbers alone: {', '.join(NEEDED)} and so on",
        )


def find_workload(source: str | None, numbers: Mapping[str, float]) -> Workload:
    """A model, or the module that FILE.py:FUNCTION builds, counted on shapes alone."""
    if source is None or not is_module(source):
        return Transformer(find_model(source, numbers))
    if numbers:
        raise ParameterError(next(iter(numbers)), f" changes nothing: {source} builds the module itself; leave it out")
    if find_spec("torch") is None:
        raise UsageError(f"{source}: torch is not installed here; install it as your machine needs it (pytorch.org)")
    from redline.calibration.count_module import count_module
    from redline.plan.train.workload import Module

    return Module(count_module(source))


def is_module(source: str) -> bool:
    """Also where its function is missing, so that this is what is said about it."""
    return source.endswith(".py") or source.rpartition(":")[0].endswith(".py")


def plan_sizes(
    request: TrainingRequest, sizes: Sequence[int], by: str, progress: Progress
) -> tuple[tuple[TrainingPlan, ...], tuple[tuple[int, str], ...]]:
    """A plan for each size that can run; and the others, with why no layout can run on them."""
    plans, refused = [], []
    for number, devices in enumerate(sizes):

        def tell(stage: ProgressStage, done: float, total: float, number: int = number) -> None:
            progress(stage, number + done / total, len(sizes))

        training_request = replace(request, devices=devices, by="memory" if by == "memory" else "speed")
        try:
            refuse_impossible(training_request)
            plans.append(training.plan_training(training_request, tell))
        except UsageError as error:
            if len(sizes) == 1:
                raise
            refused.append((devices, str(error).partition("\n")[0]))
    if not plans:
        raise UsageError(f"no layout can run on any of these numbers of GPUs: {refused[0][1]}")
    return tuple(plans), tuple(refused)


def _merit(plan: TrainingPlan, by: str) -> tuple[bool, float]:
    """By speed the size that trains fastest, by cost the one that needs the least GPU time per token.

    What fits comes before what does not.
    """
    merits = {
        "speed": plan.best.tokens_per_s,
        "cost": plan.best.tokens_per_s / plan.devices,
        "memory": -plan.best.peak_bytes,
    }
    return plan.fits, merits[by]


def price_job(
    plan: TrainingPlan,
    tokens: float,
    *,
    price: float | None,
    failures: float | str | None,
    recovery: str | None,
    storage_bytes_per_s: float | None,
    pue: float | None,
) -> JobCost:
    """`failures` and `recovery` are names of published ones, or numbers; without them a band of published ones."""
    power = plan.machine.power_w
    best = plan.best
    job = JobRequest(
        step_s=ThreePointEstimate(best.step_low_s, best.step_s, best.step_high_s),
        tokens_per_step=plan.tokens_per_step,
        tokens=tokens,
        devices=plan.devices,
        price_per_device_hour=price,
        device_power_w=None if power is None else power.value,
        pue=pue or 1.0,
        parameters=plan.parameters,
        write_bytes_per_s=storage_bytes_per_s,
    )
    rates = () if failures is None else (_rate(str(failures), plan.devices_per_node),)
    return whole_job(job, rates, () if recovery is None else (_recovery(recovery),))


def _rate(text: str, devices_per_node: int) -> FailureRate:
    """A number is failures per node and day."""
    number = _as_number(text)
    if number is None:
        return rate_named(text)
    return FailureRate(id="given", failures_per_node_day=number, devices_per_node=devices_per_node)


def _recovery(text: str) -> Recovery:
    """Two numbers are seconds to restart, and seconds that a checkpoint takes."""
    restart, comma, save = text.partition(",")
    if not comma:
        return recovery_named(text)
    seconds = _as_number(restart), _as_number(save)
    if seconds[0] is None or seconds[1] is None:
        raise UsageError(f"a recovery of {text!r} makes no sense; give two times in seconds, such as 600,6")
    return Recovery(id="given", restart_s=seconds[0], checkpoint_s=seconds[1])


def _as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
