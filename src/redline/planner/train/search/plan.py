"""From a request to a plan: search the layouts, and say of the best ones all that a person needs to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from redline.errors import UsageError
from redline.hardware.machine import Machine
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.measured.fit_to_measured import FittedJob, fit_to_measured
from redline.planner.train.measured.measured_step import MeasuredTraining
from redline.planner.train.measured.measured_trust import job_spread
from redline.planner.train.memory.oom_probability import peak_interval
from redline.planner.train.search.alternatives import BETTER, Change, alternatives, changes
from redline.planner.train.search.evaluate import Evaluated, TrainingJob
from redline.planner.train.search.plan_trust import is_measured
from redline.planner.train.search.ranking import ALIKE
from redline.planner.train.search.search import FoundLayouts, frontier, safer, search
from redline.planner.train.search.situations import PlannedJob
from redline.planner.train.search.space import Space
from redline.planner.train.search.training_plan import Candidate, TrainingPlan
from redline.planner.train.stack_abilities import abilities
from redline.planner.train.stacks import DEFAULT_STACK, machine_rates, rates_of, stack
from redline.planner.train.stages import micro_batches
from redline.planner.train.time.overlap import overlaps
from redline.planner.train.time.step_costs import of_row
from redline.planner.train.training_choices import ACCEPTED_CHANCE, BY, TOP, Recompute
from redline.planner.train.workload import Workload
from redline.progress import Progress, ProgressStage, silent

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
    best = layouts.every.row(0) if layouts.fitting else layouts.every.row(int(np.argmin(layouts.every.peak_bytes)))
    costs = of_row(job.workload.step_costs(job.batch, _as_columns(best.layout), job.rates))
    device_bytes = float(job.rates.device_bytes)
    safe = safer(layouts)
    return TrainingPlan(
        workload=request.workload,
        parameters=request.workload.parameters,
        active_parameters=request.workload.active_parameters,
        flops_per_step=_flops(job, best.layout),
        machine=request.machine,
        dtype=request.dtype,
        stack=request.stack,
        devices=request.devices,
        devices_per_node=space.devices_per_node,
        device_bytes=device_bytes,
        batch=job.batch,
        by=request.by,
        accepted_chance=request.accepted_chance,
        considered=len(layouts.every),
        fitting=layouts.fitting,
        best=_candidate(job, best, request, fitted),
        safer=None if safe is None else _candidate(job, layouts.every.row(safe), request, fitted),
        step_costs=costs,
        rates=job.rates,
        ranked=tuple(_candidate(job, evaluated, request, fitted) for evaluated in _first(layouts, request.top)),
        frontier=tuple(
            _candidate(job, layouts.every.row(int(row)), request, fitted) for row in _shown(frontier(layouts))
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
    bare = machine_rates(
        request.machine,
        request.dtype,
        devices_per_node=request.devices_per_node,
        nic_bytes_per_s=request.nic_bytes_per_s,
    )
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


def _job(request: TrainingRequest, fitted: FittedJob | None = None) -> TrainingJob:
    rates = rates_of(
        request.machine,
        request.dtype,
        request.stack,
        devices_per_node=request.devices_per_node,
        nic_bytes_per_s=request.nic_bytes_per_s,
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
    """Whether recomputing some operators saves memory: the inside of fused attention has nothing to save."""
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
    return [layouts.every.row(int(row)) for row in np.sort(rows)[: min(count, layouts.fitting)]]


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
