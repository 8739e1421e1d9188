"""Everything that is claimed of plans, computed from the measurements in the package: tables, and points to draw."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.planner.serve.serving_trust import Repeats
from redline.planner.validation.left_out_accuracy import LeftOut, left_out_accuracy
from redline.planner.validation.memory import as_measured, measured_peaks, predicted_use
from redline.planner.validation.memory_accuracy import MemoryAccuracy, memory_accuracy
from redline.planner.validation.predicted_steps import predicted as predicted_steps
from redline.planner.validation.predicted_steps import usual
from redline.planner.validation.rows import Numbers
from redline.planner.validation.serving import load_serving
from redline.planner.validation.serving_accuracy import (
    LeftOutGroup,
    ServingAccuracy,
    left_out_groups,
    serving_accuracy,
)
from redline.planner.validation.serving_errors import SCORED
from redline.planner.validation.serving_errors import predicted as predicted_serving
from redline.planner.validation.serving_repeats import first_token_repeats
from redline.planner.validation.step_accuracy import StepAccuracy, step_accuracy
from redline.planner.validation.training import expressed_runs
from redline.progress import Progress, ProgressStage, silent


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Measured and predicted figures of held-out runs that belong together."""

    name: str
    measured: Numbers
    predicted: Numbers


@dataclass(frozen=True, kw_only=True)
class Validation:
    """All tables of `redline plan validate`."""

    left_out: LeftOut
    """Step time, by what was left out of the fit."""
    step: StepAccuracy
    """Of layouts between those that were fitted to."""
    memory: MemoryAccuracy
    serving: tuple[ServingAccuracy, ...]
    serving_groups: tuple[LeftOutGroup, ...]
    """Every model and GPU that was left out of the fit of an engine."""
    first_token_repeats: Repeats


def validate(progress: Progress = silent) -> Validation:
    progress(ProgressStage.VALIDATE, 0, 3)
    step = step_accuracy()
    progress(ProgressStage.VALIDATE, 1, 3)
    memory = memory_accuracy()
    progress(ProgressStage.VALIDATE, 2, 3)
    return Validation(
        left_out=left_out_accuracy(),
        step=step,
        memory=memory,
        serving=serving_accuracy(),
        serving_groups=left_out_groups(),
        first_token_repeats=first_token_repeats(),
    )


def step_points() -> tuple[Scatter, ...]:
    """Seconds, by software stack."""
    runs = expressed_runs()
    scored = runs.where(runs.held_out & usual(runs))
    return tuple(_by_name(scored.stacks, scored.measured_s, predicted_steps(scored).step_s))


def memory_points() -> tuple[Scatter, ...]:
    """Bytes, by software stack."""
    peaks = measured_peaks()
    rows = peaks.where(peaks.held_out)
    return tuple(_by_name(rows.stacks, rows.measured_bytes, as_measured(predicted_use(rows), rows.kinds)))


def serving_points(metric: str = "tpot_s") -> tuple[Scatter, ...]:
    """Seconds per token, by engine; rows without speculative decoding."""
    rows, _excluded = load_serving()
    asked = np.array([metric in SCORED[engine] for engine in rows.engine])
    measured = np.asarray(rows.measured[metric], np.float64)
    kept = asked & (rows.held_out > 0) & (rows.speculative == 0) & np.isfinite(measured)
    predicted = np.broadcast_to(getattr(predicted_serving(rows), metric), measured.shape)
    return tuple(_by_name(np.array(rows.engine)[kept], measured[kept], predicted[kept]))


def _by_name(names: NDArray[np.str_], measured: Numbers, predicted: Numbers) -> Iterator[Scatter]:
    for name in np.unique(names):
        mask = names == name
        yield Scatter(name=str(name), measured=measured[mask], predicted=predicted[mask])
