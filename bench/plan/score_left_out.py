"""Predict every published run from constants that were fitted without it and its like, for the package.

    python -m bench.plan.score_left_out [--processes 2] [--keep FOLDER]

Run it after `fit_step`, or a change to the model of step time, and before `python -m bench.plan`, which makes intervals
and errors of it: data/left_out.csv.gz, the logarithm of measured over predicted time of each run, by what was left out
with it; and beside it what the nearest of the other runs would have said. Deterministic; needs SciPy.
Each fit begins at what is known of the software before any run, never at constants that others made of the runs it
leaves out. Fits are kept in a folder by what went into them, so that a run that was stopped goes on where it was. The
odd half is predicted, and never fitted to.
"""

import argparse
import ast
import csv
import gzip
import hashlib
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from bench.plan.fit_step import Constants, everywhere, fitted, fitting_half, runs_of
from bench.plan.folds import Fold, folds
from bench.plan.neighbour import neighbour_logs
from bench.plan.predicted_steps import predicted, usual
from bench.plan.rows import DATA, Mask, Numbers
from bench.plan.training import Runs, expressed_runs
from redline.plan.train.search.plan_trust import Situation
from redline.plan.train.stacks import DEFAULT_STACK, format_kind

ROOT = Path(__file__).parents[2]
OUTPUT = DATA / "left_out.csv.gz"
# What a fit depends on besides its runs.
CODE = (
    "bench/plan/fit_step.py", "src/redline/plan/train/*.py", "src/redline/plan/train/time/*.py",
    "src/redline/plan/train/data/*", "src/redline/model/*.py", "src/redline/hardware/*",
    "bench/plan/training.py", "bench/plan/rows.py",
)  # fmt: skip
DIGITS = 4


@dataclass(frozen=True)
class Fit:
    """Constants of one stack, from the fitting half without some runs."""

    stack: str
    ids: tuple[str, ...]
    """Those that are left to fit to."""

    @property
    def key(self) -> str:
        return hashlib.sha256("/".join((code_digest(CODE), self.stack, *self.ids)).encode()).hexdigest()[:24]


def main() -> None:
    options = _options()
    options.keep.mkdir(parents=True, exist_ok=True)
    runs = expressed_runs()
    wanted = list(folds(runs))
    every = sorted({fit for fold in wanted for fit in fits(runs, fold)}, key=lambda fit: (-len(fit.ids), fit.key))
    missing = [fit for fit in every if not (options.keep / f"{fit.key}.json").exists()]
    print(f"{len(wanted)} folds need {len(every)} fits, of which {len(missing)} are still to do", flush=True)
    spent_s = 0.0
    with ProcessPoolExecutor(options.processes) as pool:
        for done, took_s in enumerate(pool.map(_keep, missing, [options.keep] * len(missing)), 1):
            spent_s += took_s
            if done % 20 == 0:
                print(f"{done} of {len(missing)} fits, {spent_s / 60:.1f} CPU minutes", flush=True)
    print(f"{spent_s / 60:.1f} CPU minutes", flush=True)
    own = {axis.value: _logs(runs, wanted, axis, options.keep) for axis in Situation if axis is not Situation.LAYOUT}
    _write(runs, {**own, **{f"nearest {axis.value}": neighbour_logs(runs, axis) for axis in Situation}})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=ROOT / ".cache" / "fits", help="where fits are kept")
    return parser.parse_args()


# --- fits -------------------------------------------------------------------------------------------------------------


def fits(runs: Runs, fold: Fold) -> Iterator[Fit]:
    """What predicts the runs of a fold: their stack; and what is common, for machines that are left to it."""
    known = _known()
    kept = known.where(~np.isin(known.ids, runs.ids[fold.left_out]))
    own = runs_of(fold.predicted_as, kept)
    if fold.predicted_as != DEFAULT_STACK and len(own):
        yield Fit(fold.predicted_as, tuple(own.ids.tolist()))
    if fold.predicted_as == DEFAULT_STACK or not _kinds(runs.where(fold.scored)) <= _kinds(own):
        yield Fit(DEFAULT_STACK, tuple(runs_of(DEFAULT_STACK, kept).ids.tolist()))


def _kinds(runs: Runs) -> set[tuple[str, str]]:
    return {(machine, format_kind(dtype)) for machine, dtype in zip(runs.machines, runs.formats, strict=True)}


def _keep(fit: Fit, folder: Path) -> float:
    """Fit, write the constants down, and say how much CPU time it took."""
    started_s = time.process_time()
    constants = fitted(fit.stack, _known().where(np.isin(_known().ids, fit.ids)))
    unfinished = folder / f"{fit.key}.part"
    unfinished.write_text(json.dumps(constants), encoding="utf-8")
    unfinished.rename(folder / f"{fit.key}.json")
    return time.process_time() - started_s


@cache
def _known() -> Runs:
    return fitting_half()


@cache
def code_digest(code: tuple[str, ...]) -> str:
    """Of everything that a fit depends on besides its runs, except constants that were fitted."""
    files = [path for name in code for path in sorted(ROOT.glob(name))]
    digest = hashlib.sha256()
    for path in files:
        if path.suffix == ".py":
            digest.update(ast.dump(ast.parse(path.read_bytes())).encode())  # comments change nothing
        elif path.suffix in {".csv", ".toml"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()


# --- predictions ------------------------------------------------------------------------------------------------------


def _logs(runs: Runs, wanted: list[Fold], axis: Situation, folder: Path) -> Numbers:
    """NaN where a run has no fold."""
    logs = np.full(len(runs), np.nan)
    for fold in wanted:
        if fold.axis is axis and fold.scored.any():
            logs[fold.scored] = left_out_logs(runs, fold, {fit.stack: _kept(fit, folder) for fit in fits(runs, fold)})
    return logs


def left_out_logs(runs: Runs, fold: Fold, constants: dict[str, Constants]) -> Numbers:
    """Logarithms of measured over predicted times of a fold."""
    scored = runs.where(fold.scored)
    stacks = everywhere(constants) if DEFAULT_STACK in constants else constants
    name = fold.predicted_as if fold.predicted_as in stacks else DEFAULT_STACK
    told = predicted(replace(scored, stacks=np.full(len(scored), name)), stacks)
    return np.asarray(np.log(scored.measured_s / told.step_s), np.float64)


def _kept(fit: Fit, folder: Path) -> Constants:
    constants: Constants = json.loads((folder / f"{fit.key}.json").read_text(encoding="utf-8"))
    return constants


def _write(runs: Runs, logs: dict[str, Numbers]) -> None:
    scored: Mask = usual(runs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", *logs])
    for at in np.flatnonzero(scored):
        cells = (column[at] for column in logs.values())
        writer.writerow([runs.ids[at], *("" if np.isnan(cell) else f"{cell:.{DIGITS}f}" for cell in cells)])
    OUTPUT.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    for name, column in logs.items():
        off = np.abs(np.expm1(-column[np.isfinite(column)]))
        median, p90 = 100 * np.quantile(off, (0.5, 0.9))
        print(f"{name:22} {len(off):5} runs  median {median:5.1f} %  p90 {p90:5.1f} %")


if __name__ == "__main__":
    main()
