"""Everything that is claimed of plans, computed from published measurements: tables, and points to draw."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.plan.left_out_accuracy import left_out_accuracy
from bench.plan.memory import as_measured, measured_peaks, predicted_use
from bench.plan.memory_accuracy import memory_accuracy
from bench.plan.predicted_steps import predicted as predicted_steps
from bench.plan.predicted_steps import usual
from bench.plan.rows import Numbers
from bench.plan.serving import load_serving
from bench.plan.serving_accuracy import left_out_groups, serving_accuracy
from bench.plan.serving_errors import SCORED
from bench.plan.serving_errors import predicted as predicted_serving
from bench.plan.serving_repeats import first_token_repeats
from bench.plan.step_accuracy import step_accuracy
from bench.plan.training import expressed_runs
from bench.plan.validation import (
    Scatter,
    Validation,
)


def validate() -> Validation:
    return Validation(
        left_out=left_out_accuracy(),
        step=step_accuracy(),
        memory=memory_accuracy(),
        serving=serving_accuracy(),
        serving_groups=left_out_groups(),
        first_token_repeats=first_token_repeats(),
        step_points=step_points(),
        memory_points=memory_points(),
        serving_points=serving_points(),
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
        yield Scatter(name=str(name), measured=_six_digits(measured[mask]), predicted=_six_digits(predicted[mask]))


def _six_digits(values: Numbers) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values.tolist())
