"""How far predictions lie from measured runs that were left out of the fit with all their like."""

import csv
import gzip
from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.plan.folds import Texts, chips, groups
from bench.plan.predicted_steps import predicted, usual
from bench.plan.rows import DATA, Mask, Numbers
from bench.plan.training import Runs, expressed_runs
from redline.plan.train.search.plan_trust import Situation

FILE = DATA / "left_out.csv.gz"


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """Of one axis: columns, one row per run that was predicted without its group."""

    runs: Runs
    groups: Texts
    chips: Texts
    logs: Numbers
    """Logarithm of measured over predicted."""

    def __len__(self) -> int:
        return len(self.logs)

    def where(self, mask: Mask) -> "Residuals":
        return Residuals(
            runs=self.runs.where(mask), groups=self.groups[mask], chips=self.chips[mask], logs=self.logs[mask]
        )

    @property
    def errors(self) -> Numbers:
        """Predicted over measured, less 1."""
        return np.asarray(np.expm1(-self.logs), np.float64)

    @property
    def unusual(self) -> Mask:
        """Mixtures of experts and adapters."""
        mask: Mask = self.runs.sparse | self.runs.adapters
        return mask


@cache
def residuals(axis: Situation) -> Residuals:
    """As `score_left_out` found them; of layouts, those of runs with odd ids, to which nothing was fitted."""
    return _layouts() if axis is Situation.LAYOUT else _of_column(axis, axis.value)


@cache
def of_neighbour(axis: Situation) -> Residuals:
    """What the nearest measured run would have said of the same runs."""
    return _of_column(axis, f"nearest {axis.value}")


def _layouts() -> Residuals:
    runs = expressed_runs()
    kept = runs.where(runs.held_out & usual(runs))
    logs = np.asarray(np.log(kept.measured_s / predicted(kept).step_s), np.float64)
    return Residuals(runs=kept, groups=groups(kept, Situation.LAYOUT), chips=chips(kept), logs=logs)


def _of_column(axis: Situation, name: str) -> Residuals:
    runs, told = expressed_runs(), _columns()
    kept = runs.where(np.isin(runs.ids, [row["id"] for row in told if row[name]]))
    by_id = {row["id"]: float(row[name]) for row in told if row[name]}
    logs = np.array([by_id[each] for each in kept.ids.tolist()], np.float64)
    return Residuals(runs=kept, groups=groups(kept, axis), chips=chips(kept), logs=logs)


@cache
def _columns() -> list[dict[str, str]]:
    return list(csv.DictReader(gzip.decompress(FILE.read_bytes()).decode("utf-8").splitlines()))
