"""`redline plan train -o`: the predicted step as a trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redline.cost.train.predicted import PredictedStep, predicted_step
from redline.trace.write import write_timelines

if TYPE_CHECKING:
    from redline.cost.train.planned import TrainingPlan


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
    predicted = predicted_step(
        plan.pieces,
        float(plan.best.step_s),
        device=machine.driver_names[0] if machine.driver_names else machine.name,
        memory_bytes=int(memory.value) if memory else 0,
    )
    notes = _notes(predicted, plan.devices)
    size_bytes = write_timelines(
        predicted.timelines, Path(path), made_by="redline plan train", notes=notes, force=force
    )
    stages = tuple(timeline.rank for timeline in predicted.timelines)
    return WrittenTrace(path=str(path), stages=stages, notes=notes, size_bytes=size_bytes)


def _notes(predicted: PredictedStep, devices: int) -> tuple[str, ...]:
    stages, kept = predicted.stages, len(predicted.timelines)
    found = [f"predicted, not measured: one step of {devices:,} devices, one rank for each stage of the pipeline"]
    if predicted.layers_together:
        found.append("the layers of a pass are drawn as one kernel, because there are too many to draw each")
    if kept < stages:
        found.append(f"{kept} of {stages} stages are drawn, because there are too many kernels to draw all")
    return tuple(found)
