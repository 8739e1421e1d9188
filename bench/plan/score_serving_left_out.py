"""Predict every published run of serving from constants that were fitted without its model or its GPU.

    python -m bench.plan.score_serving_left_out [--processes 2] [--keep FOLDER]

Run it after `fit_serving`, or a change to the model of serving, and before `python -m bench.plan`, which makes
intervals and errors of it: data/serving_left_out.csv.gz, the logarithm of measured over predicted figures of each run,
by what was left out with it. Deterministic; needs SciPy, and some minutes. Fits are kept in a folder by what went
into them, so that a run that was stopped goes on where it was. The odd half is predicted, and never fitted to.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.plan.fit_serving import fitted, serve_with
from bench.plan.rows import Numbers
from bench.plan.score_left_out import ROOT, code_digest
from bench.plan.serving import ServingRows, load_serving, rows_where
from bench.plan.serving_errors import SCORED, log_errors
from bench.plan.serving_folds import ServingFold, serving_folds
from bench.plan.serving_left_out import FILE, column_name
from redline.plan.serve.serving_plan import ServingSituation
from redline.plan.serve.setup import Constants, family_of

# What a fit depends on besides its rows.
CODE = (
    "bench/plan/fit_serving.py", "src/redline/plan/serve/[cf]*.py", "src/redline/plan/serve/setup.py",
    "bench/plan/serving.py",
    "src/redline/model/*.py", "src/redline/hardware/*",
)  # fmt: skip
DIGITS = 4
METRICS = sorted({metric for metrics in SCORED.values() for metric in metrics})


def main() -> None:
    options = _options()
    options.keep.mkdir(parents=True, exist_ok=True)
    rows = _rows()
    folds = list(serving_folds(rows))
    missing = [at for at, fold in enumerate(folds) if not _kept(fold, options.keep).exists()]
    print(f"{len(folds)} folds, of which {len(missing)} are still to fit", flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        for at, took_s in zip(missing, pool.map(_keep, missing, [options.keep] * len(missing)), strict=True):
            fold = folds[at]
            print(f"{fold.engine} without {fold.situation} {fold.group}: {took_s:.1f} CPU seconds", flush=True)
    _write(rows, _logs(rows, folds, options.keep))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=ROOT / ".cache" / "serving-fits", help="where fits are kept")
    return parser.parse_args()


def fold_constants(rows: ServingRows, fold: ServingFold) -> dict[str, Any]:
    """Of the engine without the group: over all families, and of those of the group that are left."""
    wanted = frozenset(family_of(gpu) for gpu in rows_where(rows, fold.scored).gpu)
    return fitted(rows_where(rows, fold.fitted), fold.engine, wanted)


def fold_logs(rows: ServingRows, fold: ServingFold, constants: dict[str, Any]) -> dict[str, Numbers]:
    """Logarithms of measured over predicted figures of a fold; NaN where a row was not measured so."""
    scored = rows_where(rows, fold.scored)
    chosen = [constants["families"].get(family_of(gpu), constants["all"]) for gpu in scored.gpu]
    columns = {each.name: np.array([one[each.name] for one in chosen]) for each in fields(Constants)}
    return {name: -found for name, found in log_errors(scored, serve_with(scored, Constants(**columns))).items()}


def _keep(at: int, folder: Path) -> float:
    """Fit, write the constants down, and say how much CPU time it took."""
    started_s = time.process_time()
    fold = list(serving_folds(_rows()))[at]
    path = _kept(fold, folder)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(fold_constants(_rows(), fold)), encoding="utf-8")
    unfinished.rename(path)
    return time.process_time() - started_s


def _kept(fold: ServingFold, folder: Path) -> Path:
    ids = rows_where(_rows(), fold.fitted).ids
    text = "/".join((code_digest(CODE), fold.engine, fold.situation, fold.group, *ids))
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


@cache
def _rows() -> ServingRows:
    return load_serving()[0]


def _logs(rows: ServingRows, folds: list[ServingFold], folder: Path) -> dict[str, Numbers]:
    """By column, NaN where a row has no fold."""
    names = [column_name(situation, metric) for situation in ServingSituation for metric in METRICS]
    logs = {name: np.full(len(rows.ids), np.nan) for name in names}
    for fold in folds:
        constants = json.loads(_kept(fold, folder).read_text(encoding="utf-8"))
        for metric, found in fold_logs(rows, fold, constants).items():
            logs[column_name(fold.situation, metric)][fold.scored] = found
    return logs


def _write(rows: ServingRows, logs: dict[str, Numbers]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", *logs])
    for at in np.flatnonzero(np.any(np.isfinite(list(logs.values())), axis=0)):
        cells = (column[at] for column in logs.values())
        writer.writerow([rows.ids[at], *("" if np.isnan(cell) else f"{cell:.{DIGITS}f}" for cell in cells)])
    FILE.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
