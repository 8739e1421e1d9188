"""How well peaks of memory are predicted, on rows that no constant was fitted to; and verdicts on what fits."""

from dataclasses import dataclass

import numpy as np

from redline.model.model import Column
from redline.planner.train.memory.footprint import footprint
from redline.planner.train.memory.oom_probability import oom_probability, peak_interval
from redline.planner.train.memory.runnable import runnable
from redline.planner.train.training_choices import ACCEPTED_CHANCE
from redline.planner.validation.memory import (
    Peaks,
    as_measured,
    fullest_use,
    left_out,
    measured_peaks,
    nanotron_outcomes,
    predicted_use,
)
from redline.planner.validation.rows import Mask


@dataclass(frozen=True, kw_only=True)
class PeakAccuracy:
    """Of one stack, or of all."""

    stack: str
    rows: int
    bias: float
    """Median of predicted over measured, less one."""
    median: float
    """Of absolute errors."""
    p90: float
    covered: float
    """Share of measured peaks inside the stated interval, which is meant to hold eight of ten."""


@dataclass(frozen=True, kw_only=True)
class FitVerdicts:
    """Layouts that were tried, by what was predicted of them and what happened."""

    accepted_chance: float
    ran: int
    failed: int
    refused: int
    """Of the failed: those that a rule refuses whatever the memory is."""
    false_fits: int
    """Failed, though predicted to fit."""
    contradicted: int
    """Of the false fits: those whose very layout is among those that ran. No rule on layouts can tell these."""
    false_refusals: int
    """Ran, though predicted not to."""

    @property
    def fits(self) -> int:
        """All verdicts "fits"."""
        return self.ran - self.false_refusals + self.false_fits


@dataclass(frozen=True, kw_only=True)
class MemoryAccuracy:
    peaks: tuple[PeakAccuracy, ...]
    """Per stack, then all together."""
    left_out: dict[str, int]
    """Rows with a peak that cannot be predicted, by reason."""
    verdicts: FitVerdicts


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
