"""From a request to a plan: search the layouts, and say of the best ones all that a person needs to choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from redline.errors import ParameterError, UsageError
from redline.hardware.machine import Machine
from redline.plan.train.layout import Batch, Layout, micro_batches
from redline.plan.train.measured import FittedJob, MeasuredTraining, fit_to_measured, job_spread
from redline.plan.train.memory.footprint import peak_interval
from redline.plan.train.search.plan_trust import MeasuredAccuracy, PlannedJob, is_measured
from redline.plan.train.search.search import (
    ALIKE,
    BETTER,
    Change,
    Evaluated,
    FoundLayouts,
    TrainingJob,
    alternatives,
    changes,
    frontier,
    safer,
    search,
)
from redline.plan.train.search.space import Space, listed_divisors
from redline.plan.train.stacks import DEFAULT_STACK, abilities, machine_rates, rates_of, stack
from redline.plan.train.step_cost import MemoryUse, StepTime, row_of
from redline.plan.train.time.step import overlaps
from redline.plan.train.time.step_costs import of_row
from redline.plan.train.training_choices import ACCEPTED_CHANCE, BY, NAMED, TOP, Recompute
from redline.plan.train.workload import Workload
from redline.progress import Progress, ProgressStage, silent

if TYPE_CHECKING:
    from redline.plan.train.search.plan_trust import Trust
    from redline.plan.train.search.search import Alternative
    from redline.plan.train.stacks import Rates
    from redline.plan.train.time.step import Overlap
    from redline.plan.train.time.step_costs import StepCosts


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One layout with what it should cost: plain numbers, no columns."""

    layout: Layout
    micro_batches: int
    time: StepTime
    step_s: float
    step_low_s: float
    step_high_s: float
    """The 80 % interval."""
    tokens_per_s: float
    """Of all devices together; of a module, samples."""
    mfu: float
    """FLOPs that the model needs, over what the devices could do in that time at their peak."""
    memory: MemoryUse
    peak_bytes: float
    peak_low_bytes: float
    peak_high_bytes: float
    chance: float
    """Of running out of memory."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """All that `redline plan train` says, whichever way it is shown."""

    workload: Workload
    parameters: int
    active_parameters: int
    flops_per_step: float
    machine: Machine
    dtype: str
    stack: str
    devices: int
    devices_per_node: int
    device_bytes: float
    batch: Batch
    by: str
    """speed or memory: what the ranking goes by."""
    accepted_chance: float
    considered: int
    """Layouts that can run at all."""
    fitting: int
    """Of these, the ones whose chance of running out of memory is accepted."""
    best: Candidate
    """Where nothing fits, the layout that needs the least memory."""
    safer: Candidate | None
    """Where the best may run out of memory: one that hardly can, and is hardly slower."""
    step_costs: StepCosts[float]
    """Of the best."""
    rates: Rates
    """What the machine does under this stack."""
    ranked: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    """Pareto frontier of step time and memory."""
    overlaps: tuple[Overlap, ...]
    alternatives: tuple[Alternative, ...]
    changes: tuple[Change, ...]
    evidence: tuple[MeasuredAccuracy, ...]
    trust: Trust
    """Of the step time."""
    measured: FittedJob | None = None
    """The measured step that its constants were fitted to."""

    @property
    def tokens_per_step(self) -> float:
        """Of a module, samples."""
        return float(self.batch.sequence * self.batch.sequences)

    @property
    def unit(self) -> str:
        """What the batch counts, and speed with it: tokens, or the samples of a module of the user's own."""
        return self.workload.unit

    @property
    def fits(self) -> bool:
        return self.fitting > 0


SHOWN_FRONTIER = 12

_SEARCHES = 1 + len(BETTER)  # the job itself, and on each better machine


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """What is known of a job before it runs. What is not fixed is searched."""

    workload: Workload
    machine: Machine
    devices: int
    sequence: int
    sequences: int
    dtype: str = "bf16"
    stack: str = DEFAULT_STACK
    devices_per_node: int = 0
    """0: as many as the machine's scale-up domain has."""
    nic_bytes_per_s: float = 0.0
    """0: that of a usual server."""
    fixed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Of fields of Layout: the only values to consider."""
    footprint: Mapping[str, float] = field(default_factory=dict)
    """Of fields of Footprint: numbers in the place of the stack's own, for its memory."""
    by: str = BY[0]
    """speed or memory."""
    accepted_chance: float = ACCEPTED_CHANCE
    top: int = TOP
    measured: MeasuredTraining | None = None
    """A step of this job that ran on this machine."""


def plan_training(request: TrainingRequest, progress: Progress = silent) -> TrainingPlan:
    """The layouts worth running, what each should cost, and why the best is the best."""
    progress(ProgressStage.SEARCH, 0, _SEARCHES)
    fitted = _fitted(request)
    job, space = _job(request, fitted), _space(request)
    layouts = search(job, space, by=request.by, accepted_chance=request.accepted_chance)
    if not len(layouts.every):
        raise UsageError(_nothing(request))
    best = row_of(layouts.every, 0 if layouts.fitting else int(np.argmin(layouts.every.peak_bytes)))
    costs = of_row(job.workload.step_costs(job.batch, _as_columns(best.layout), job.rates))
    device_bytes = float(job.rates.device_bytes)
    safe = safer(layouts)
    asked = ("workload", "machine", "dtype", "stack", "devices", "by", "accepted_chance")
    return TrainingPlan(
        **{name: getattr(request, name) for name in asked},
        parameters=request.workload.parameters,
        active_parameters=request.workload.active_parameters,
        flops_per_step=_flops(job, best.layout),
        devices_per_node=space.devices_per_node,
        device_bytes=device_bytes,
        batch=job.batch,
        considered=len(layouts.every),
        fitting=layouts.fitting,
        best=_candidate(job, best, request, fitted),
        safer=None if safe is None else _candidate(job, row_of(layouts.every, safe), request, fitted),
        step_costs=costs,
        rates=job.rates,
        ranked=tuple(_candidate(job, evaluated, request, fitted) for evaluated in _first(layouts, request.top)),
        frontier=tuple(
            _candidate(job, row_of(layouts.every, int(row)), request, fitted) for row in _shown(frontier(layouts))
        ),
        overlaps=overlaps(costs, best.time),
        alternatives=alternatives(layouts, device_bytes) if layouts.fitting else (),
        changes=_changes(request, job, layouts, progress) if layouts.fitting else (),
        evidence=request.workload.evidence(_planned(request)),
        trust=request.workload.trust(_planned(request)),
        measured=fitted,
    )


def _changes(
    request: TrainingRequest, job: TrainingJob, layouts: FoundLayouts, progress: Progress
) -> tuple[Change, ...]:
    def tell(done: int) -> None:
        progress(ProgressStage.SEARCH, 1 + done, _SEARCHES)

    return changes(job, layouts, accepted_chance=request.accepted_chance, tell=tell)


def _fitted(request: TrainingRequest) -> FittedJob | None:
    """What a measured step of the job tells of its constants."""
    if request.measured is None:
        return None
    bare = machine_rates(request.machine, request.dtype, **_links(request))
    usual = stack(request.stack, request.machine.base or request.machine.name, request.dtype)
    known = is_measured(_planned(request))
    return fit_to_measured(
        request.measured,
        request.workload,
        bare,
        usual,
        job_spread(request.stack),
        stack_name=request.stack,
        known_machine=known,
    )


def _links(request: TrainingRequest) -> dict[str, Any]:
    return {"devices_per_node": request.devices_per_node, "nic_bytes_per_s": request.nic_bytes_per_s}


def _job(request: TrainingRequest, fitted: FittedJob | None = None) -> TrainingJob:
    rates = rates_of(
        request.machine,
        request.dtype,
        request.stack,
        **_links(request),
        software=None if fitted is None else fitted.software,
    )
    if not rates.device_bytes:
        raise UsageError(f"the memory of {request.machine.name} is not known; give a profile with memory_bytes")
    batch = Batch(sequence=request.sequence, sequences=request.sequences)
    if fitted is None:
        rates = request.workload.rates(rates, request.machine)
    return TrainingJob(
        workload=request.workload,
        batch=batch,
        rates=rates,
        stack=request.stack,
        dtype=request.dtype,
        footprint=request.footprint,
    )


def _space(request: TrainingRequest) -> Space:
    job = _job(request)
    per_node = request.devices_per_node or int(job.rates.devices_per_node)
    able = abilities(request.stack)
    if "recompute" not in request.fixed and not _selective_saves(job, request):
        usual = able.only.get("recompute", tuple(Recompute))
        able = replace(able, only={**able.only, "recompute": tuple(set(usual) - {Recompute.SELECTIVE})})
    return Space(devices=request.devices, devices_per_node=per_node, fixed=request.fixed, abilities=able)


def _selective_saves(job: TrainingJob, request: TrainingRequest) -> bool:
    """Tell whether recomputing some operators saves memory: the inside of fused attention has nothing to save."""
    unfused = not all(request.fixed.get("flash", (1.0,)))
    return unfused or bool(job.foot.by_operator) or bool(job.foot.selective < 1)


def _nothing(request: TrainingRequest) -> str:
    """Why no layout can run: the constraint whose absence would help, or the numbers themselves."""
    batch = Batch(sequence=request.sequence, sequences=request.sequences)
    for name in request.fixed:
        others = {key: value for key, value in request.fixed.items() if key != name}
        if len(np.atleast_1d(request.workload.layouts(batch, replace(_space(request), fixed=others)).dp)):
            values = ", ".join(f"{value:g}" for value in request.fixed[name])
            return (
                f"no layout of {request.devices} devices has {name} {values} with the rest that you fixed; leave it out"
            )
    workload = request.workload
    return (
        f"no layout of {request.devices} devices can run this model with {request.sequences} {workload.batch_unit} "
        f"per step\n{workload.must_divide}; change the batch or the number of GPUs"
    )


def _first(layouts: FoundLayouts, count: int) -> list[Evaluated]:
    """The best ones, without those that cost what a simpler one costs."""
    costs = np.stack([layouts.every.step_s, layouts.every.peak_bytes], axis=1)[: max(layouts.fitting, 1)]
    _, rows = np.unique(np.round(np.log(costs) / ALIKE), axis=0, return_index=True)
    return [row_of(layouts.every, int(row)) for row in np.sort(rows)[: min(count, layouts.fitting)]]


def _shown(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """A frontier may have hundreds of points: both ends, and some evenly between."""
    if len(rows) <= SHOWN_FRONTIER:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, SHOWN_FRONTIER).round().astype(np.intp))]


def _candidate(job: TrainingJob, evaluated: Evaluated, request: TrainingRequest, fitted: FittedJob | None) -> Candidate:
    step_s, peak_bytes = float(evaluated.step_s), float(evaluated.peak_bytes)
    trust = request.workload.trust(_planned(request))
    low, high = (trust.low, trust.high) if fitted is None else fitted.spread
    low_bytes, high_bytes = peak_interval(peak_bytes, request.stack)
    possible = float(job.rates.peak_flops_per_s) * request.devices * step_s
    return Candidate(
        layout=evaluated.layout,
        micro_batches=int(micro_batches(job.batch, evaluated.layout)),
        time=evaluated.time,
        step_s=step_s,
        step_low_s=step_s * low,
        step_high_s=step_s * high,
        tokens_per_s=float(job.batch.sequence * job.batch.sequences) / step_s,
        mfu=_flops(job, evaluated.layout) / possible,
        memory=evaluated.memory,
        peak_bytes=peak_bytes,
        peak_low_bytes=float(low_bytes),
        peak_high_bytes=float(high_bytes),
        chance=float(evaluated.chance),
    )


def _planned(request: TrainingRequest) -> PlannedJob:
    return PlannedJob(
        stack=request.stack,
        machine=request.machine,
        dtype=request.dtype,
        devices=request.devices,
        adapters=any(request.fixed.get("lora", ())),
    )


def _flops(job: TrainingJob, layout: Layout) -> float:
    return job.workload.flops_per_step(job.batch, adapters=bool(layout.lora))


def _as_columns(layout: Layout) -> Layout:
    return replace(
        layout, **{dimension.name: np.array([float(getattr(layout, dimension.name))]) for dimension in fields(Layout)}
    )


# --- constraints that no layout meets ---------------------------------------------------------------------------------


_SPLITS = ("dp", "tp", "pp", "cp")


def refuse_impossible(request: TrainingRequest) -> None:
    """Raise UsageError for the first constraint of which no value is possible."""
    request.workload.refuse(request.fixed)
    for name, values in request.fixed.items():
        reasons = [next(_objections(request, name, int(value)), "") for value in values]
        if all(reasons):
            raise ParameterError(name, f" {_listed(name, values)}: {reasons[0]}")
    _refuse_product(request)


def _objections(request: TrainingRequest, name: str, value: int) -> Iterator[str]:
    """Why a value is impossible whatever the rest is."""
    able = abilities(request.stack)
    if not able.has(name, value):
        yield _not_of_stack(request.stack, name, able.only[name])
    if name in _SPLITS and request.devices % value:
        yield f"that does not divide {request.devices} GPUs; give one of {listed_divisors(request.devices)}"
    yield from request.workload.objections(name, value, request.sequence)
    batch = f"a batch of {request.sequences} {request.workload.batch_unit}"
    if name == "dp" and request.sequences % value:
        yield f"{batch} cannot be dealt to {value} copies evenly; change the batch"
    if name == "micro_batch" and request.sequences % value:
        yield f"{batch} is no multiple of that; change the batch"


def _not_of_stack(stack: str, name: str, possible: tuple[int, ...]) -> str:
    return f"the stack {stack} has only {_listed(name, possible)}; leave it out, or plan without --stack"


def _refuse_product(request: TrainingRequest) -> None:
    """Where every split has one value, their product is known."""
    single = {name: int(request.fixed[name][0]) for name in _SPLITS if len(request.fixed.get(name, ())) == 1}
    product = prod(single.values())
    if request.devices % product or (len(single) == len(_SPLITS) and product != request.devices):
        words = " x ".join(f"{name} {value}" for name, value in single.items())
        raise UsageError(f"{words} are {product} GPUs, and there are {request.devices}; change one of them")


def _listed(name: str, values: Sequence[float]) -> str:
    words = {number: text for text, number in NAMED.get(name, {}).items()}
    return ",".join(words.get(int(value), f"{value:g}") for value in values)
