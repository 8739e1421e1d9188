"""How far predictions lie from measured runs of serving whose model or GPU was left out of the fit."""

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.plan.folds import Texts
from bench.plan.rows import DATA, Mask, Numbers
from bench.plan.serving import ServingRows, load_serving, rows_where
from bench.plan.serving_folds import serving_groups
from redline.plan.serve.serving_plan import ServingSituation

FILE = DATA / "serving_left_out.csv.gz"


@dataclass(frozen=True, kw_only=True)
class ServingResiduals:
    """Of one situation and figure: columns, one row per run that was predicted without its group."""

    ids: Texts
    engines: Texts
    groups: Texts
    logs: Numbers
    """Logarithm of measured over predicted."""

    def __len__(self) -> int:
        return len(self.logs)

    def where(self, mask: Mask) -> "ServingResiduals":
        return ServingResiduals(
            ids=self.ids[mask], engines=self.engines[mask], groups=self.groups[mask], logs=self.logs[mask]
        )


@cache
def serving_residuals(situation: ServingSituation, metric: str) -> ServingResiduals:
    """As bench/plan/score_serving_left_out.py found them."""
    by_id = {row["id"]: float(row[column]) for row in _columns() if row[column := column_name(situation, metric)]}
    rows = _rows()
    kept = rows_where(rows, np.isin(rows.ids, list(by_id)))
    return ServingResiduals(
        ids=np.array(kept.ids, np.str_),
        engines=np.array(kept.engine, np.str_),
        groups=serving_groups(kept, situation),
        logs=np.array([by_id[each] for each in kept.ids], np.float64),
    )


def column_name(situation: ServingSituation, metric: str) -> str:
    return f"{situation.value} {metric}"


@cache
def _rows() -> ServingRows:
    return load_serving()[0]


@cache
def _columns() -> list[Mapping[str, str]]:
    return list(csv.DictReader(gzip.decompress(FILE.read_bytes()).decode("utf-8").splitlines()))
