"""How well peaks of memory are predicted, on rows that no constant was fitted to; and verdicts on what fits."""

import numpy as np

from bench.plan.memory import (
    Peaks,
    as_measured,
    fullest_use,
    left_out,
    measured_peaks,
    nanotron_outcomes,
    predicted_use,
)
from bench.plan.rows import Mask
from bench.plan.validation import FitVerdicts, MemoryAccuracy, PeakAccuracy
from redline.model.model import Column
from redline.plan.train.memory.footprint import footprint, oom_probability, peak_interval
from redline.plan.train.memory.use import runnable
from redline.plan.train.training_choices import ACCEPTED_CHANCE


def memory_accuracy() -> MemoryAccuracy:
    """All tables, on rows with odd ids."""
    peaks = measured_peaks()
    rows = peaks.where(peaks.held_out)
    names = sorted(set(rows.stacks.tolist()))
    return MemoryAccuracy(
        peaks=(*(_accuracy(name, rows.where(rows.stacks == name)) for name in names), _accuracy("all", rows)),
        left_out=left_out(),
        verdicts=fit_verdicts(),
    )


def _accuracy(name: str, rows: Peaks) -> PeakAccuracy:
    predicted = as_measured(predicted_use(rows), rows.kinds)
    errors = predicted / rows.measured_bytes - 1
    return PeakAccuracy(
        stack=name,
        rows=len(rows),
        bias=float(np.median(errors)),
        median=float(np.median(np.abs(errors))),
        p90=float(np.quantile(np.abs(errors), 0.9)),
        covered=float(_inside(rows, predicted).mean()),
    )


def _inside(rows: Peaks, predicted: Column) -> Mask:
    inside = np.zeros(len(rows), np.bool_)
    for name in set(rows.stacks.tolist()):
        mask = rows.stacks == name
        low, high = peak_interval(predicted[mask], name)
        inside[mask] = (rows.measured_bytes[mask] >= low) & (rows.measured_bytes[mask] <= high)
    return inside


def fit_verdicts(accepted_chance: float = ACCEPTED_CHANCE) -> FitVerdicts:
    """Of nanotron's layouts with odd ids: all that ran on 80 GB, and all that failed."""
    every = nanotron_outcomes()
    tried = every.where(every.held_out)
    can_run = runnable(tried.model, tried.batch, tried.layout, footprint("nanotron"))
    peak = fullest_use(tried).peak_bytes
    fits = can_run & (oom_probability(peak, tried.device_bytes, "nanotron") <= accepted_chance)
    false_fits = fits & ~tried.ran
    return FitVerdicts(
        accepted_chance=accepted_chance,
        ran=int(tried.ran.sum()),
        failed=int((~tried.ran).sum()),
        refused=int((~can_run & ~tried.ran).sum()),
        false_fits=int(false_fits.sum()),
        contradicted=int((false_fits & _also_ran(tried, every)).sum()),
        false_refusals=int((~fits & tried.ran).sum()),
    )


def _also_ran(tried: Peaks, every: Peaks) -> Mask:
    """True where the same model ran with the same layout."""
    ran = set(_layouts(every.where(every.ran)))
    return np.array([layout in ran for layout in _layouts(tried)])


def _layouts(rows: Peaks) -> list[tuple[float, ...]]:
    columns = (rows.model.hidden, rows.layout.dp, rows.layout.tp, rows.layout.pp, rows.layout.micro_batch)
    every = np.broadcast_arrays(*columns, rows.layout.zero)
    return [tuple(row) for row in np.column_stack(every).tolist()]
