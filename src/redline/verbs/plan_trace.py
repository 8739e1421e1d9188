"""`redline plan train -o`: the predicted step as a trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redline.plan.train.kernels import half_format
from redline.plan.train.simulation.pipeline_messages import TYPES
from redline.plan.train.simulation.predicted import PredictedStep, predicted_step
from redline.storage import path_of
from redline.trace.perfetto import write_timelines

if TYPE_CHECKING:
    from redline.plan.train.search.plan import TrainingPlan


@dataclass(frozen=True, kw_only=True)
class WrittenTrace:
    """What was written."""

    path: str
    stages: tuple[int, ...]
    """Of the pipeline; each is a rank of the trace."""
    notes: tuple[str, ...]
    """What differs from a trace of the whole job. They are in the file as well."""
    size_bytes: int


def write_predicted_trace(plan: TrainingPlan, path: str | Path, *, force: bool = False) -> WrittenTrace:
    """The step of the best layout, for Perfetto and for `redline diagnose`."""
    machine = plan.machine
    memory = machine.memory_bytes
    drawn = "fp32" if plan.dtype == "tf32" else plan.dtype  # tensors are of 32 bits
    drawing = plan.workload.drawing(
        plan.batch,
        plan.best.layout,
        plan.rates,
        plan.step_costs,
        dtype=drawn,
        half=drawn if drawn in TYPES else half_format(machine),
    )
    predicted = predicted_step(
        plan.step_costs,
        float(plan.best.step_s),
        drawing,
        device=machine.driver_names[0] if machine.driver_names else machine.name,
        memory_bytes=int(memory.value) if memory else 0,
    )
    notes = _notes(predicted, plan.devices)
    size_bytes = write_timelines(
        predicted.timelines, path_of(path), made_by="redline plan train", notes=notes, force=force
    )
    stages = tuple(timeline.rank for timeline in predicted.timelines)
    return WrittenTrace(path=str(path), stages=stages, notes=notes, size_bytes=size_bytes)


def _notes(predicted: PredictedStep, devices: int) -> tuple[str, ...]:
    stages, kept = predicted.stages, len(predicted.timelines)
    remarks = [f"predicted, not measured: one step of {devices:,} devices, one rank for each stage of the pipeline"]
    if predicted.passes_together:
        remarks.append("each pass is drawn as one matmul of as many FLOPs, because its operators are too many to draw")
    elif predicted.layers_together:
        remarks.append("equal operators of all layers of a pass are drawn as one, because they are too many to draw")
    if kept < stages:
        remarks.append(f"{kept} of {stages} stages are drawn, because there are too many kernels to draw all")
    return tuple(remarks)
