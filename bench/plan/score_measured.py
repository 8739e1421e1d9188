"""Scores plans that start from one measured step, on published jobs of several layouts, for the package.

    python -m bench.plan.score_measured

Deterministic, some minutes on one core; needs SciPy. The constants of each stack are refitted without a third of the
models, and jobs of these models are predicted: from the constants alone, and from one step of the same job. Half of the
models say how far jobs and layouts lie from the constants, and how wide the interval is; the other half is scored.
Stacks that usual software was not fitted to stand for unknown software.
"""

from dataclasses import asdict
from zlib import crc32

import numpy as np

from bench.plan.accuracy_file import renew
from bench.plan.anchored import (
    Anchored,
    anchored,
    by_stack,
    is_scored,
    jobs_of,
    joined,
    log_errors,
    scored,
    spread_of,
    where,
    within,
)
from bench.plan.fit_step import COMMON, PLANS, Constants, fitted, fitting_half, runs_of
from bench.plan.predicted_steps import usual
from bench.plan.rows import Mask, Numbers
from bench.plan.training import Runs, expressed_runs
from redline.plan.train.measured import EVERY, JobSpread
from redline.plan.train.stacks import DEFAULT_STACK, StackConstants, from_constants, stack_constants

FOLDS = 3
LEAST_JOBS = 8
Part = tuple[Runs, StackConstants]
DIGITS = 3


def main() -> None:
    every = expressed_runs()
    every = every.where(usual(every))
    parts = [*_left_out(every)]
    unknown: list[Part] = [(_as_default(every), stack_constants(DEFAULT_STACK))]
    spreads = _spreads(parts)
    spreads[DEFAULT_STACK] = _spread(unknown) or spreads[EVERY]
    pairs = _all_pairs(parts, spreads)
    of_unknown = _all_pairs(unknown, spreads)
    tables = {**dict(by_stack(pairs)), EVERY: pairs, DEFAULT_STACK: of_unknown}
    written = {name: _entry(table) for name, table in tables.items()}
    known = {name: entry for name, entry in written.items() if entry["jobs"] >= LEAST_JOBS or name == EVERY}
    how = "Made by bench/plan/score_measured.py from bench/plan/data/training_runs.csv.gz."
    renew(measured={"how": how, "spreads": {name: _rounded(each) for name, each in spreads.items()}, "scored": known})
    for name, entry in written.items():
        print(name, entry, f"covered {_covered(tables[name], entry):.3f}")


def _left_out(every: Runs) -> list[Part]:
    """Runs of models that their constants have not seen."""
    half = fitting_half()
    parts: list[Part] = []
    for name in PLANS:
        for fold in range(FOLDS):
            own = runs_of(name, half)
            known = own.where(_fold(own) != fold)
            left = every.where((every.stacks == name) & (_fold(every) == fold))
            if len(known) > 2 and len(left) > 0:
                parts.append((left, _elsewhere(fitted(name, known))))
                print(name, fold, len(known), len(left), flush=True)
    return parts


def _fold(runs: Runs) -> Numbers:
    return np.array([crc32(name.encode()) % FOLDS for name in runs.names.tolist()])


def _elsewhere(constants: Constants) -> Constants:
    """Machines that only a left-out model ran on have the means of their number format."""
    filled = dict(constants)
    for format_ in ("half", "fp8", "fp4"):
        kinds = [kind for kind in constants if kind.endswith(f"/{format_}")] or [
            kind for kind in constants if "/" in kind
        ]
        names = {name for kind in kinds for name in constants[kind]}
        filled[format_] = {
            name: float(np.mean([constants[kind][name] for kind in kinds if name in constants[kind]])) for name in names
        }
    return filled


def _as_default(every: Runs) -> Runs:
    """Of stacks that usual software was not fitted to."""
    return every.where(~np.isin(every.stacks, COMMON))


def _spreads(parts: list[Part]) -> dict[str, JobSpread]:
    """Of stacks, and in the middle of all of them."""
    names = sorted({str(runs.stacks[0]) for runs, _ in parts})
    found = {name: _spread([part for part in parts if part[0].stacks[0] == name]) for name in names}
    known = {name: each for name, each in found.items() if each is not None}
    middle = JobSpread(
        job=float(np.median([each.job for each in known.values()])),
        layout=float(np.median([each.layout for each in known.values()])),
    )
    return {**known, EVERY: middle}


def _spread(parts: list[Part]) -> JobSpread | None:
    errors, jobs = [], []
    for runs, constants in parts:
        chosen = runs.where(~is_scored(runs.names))
        for machine, format_ in sorted(set(zip(chosen.machines.tolist(), chosen.formats.tolist(), strict=True))):
            own = chosen.where((chosen.machines == machine) & (chosen.formats == format_))
            errors.append(log_errors(own, from_constants(constants, machine, format_)))
            jobs.append(jobs_of(own))
    _, counts = np.unique(np.concatenate(jobs), return_counts=True)
    if np.count_nonzero(counts > 1) < 3:
        return None
    return spread_of(np.concatenate(errors), np.concatenate(jobs))


def _all_pairs(parts: list[Part], spreads: dict[str, JobSpread]) -> Anchored:
    as_default = len(parts) == 1
    return joined(
        [
            anchored(runs, constants, spreads[DEFAULT_STACK if as_default else _known(str(runs.stacks[0]), spreads)])
            for runs, constants in parts
        ]
    )


def _known(stack: str, spreads: dict[str, JobSpread]) -> str:
    return stack if stack in spreads else EVERY


def _entry(pairs: Anchored) -> dict[str, float]:
    """Errors of the half that is scored; the interval of the other."""
    half = _scored_half(pairs)
    errors = scored(where(pairs, half) if half.any() else pairs)
    chosen = scored(where(pairs, ~half) if (~half).any() else pairs)
    return {**errors, "low": chosen["low"], "high": chosen["high"]}


def _covered(pairs: Anchored, entry: dict[str, float]) -> float:
    half = _scored_half(pairs)
    return within(where(pairs, half) if half.any() else pairs, entry["low"], entry["high"])


def _scored_half(pairs: Anchored) -> Mask:
    return is_scored(np.array([job.split("|")[3] for job in pairs.jobs.tolist()]))


def _rounded(spread: JobSpread) -> dict[str, float]:
    return {name: round(value, DIGITS) for name, value in asdict(spread).items()}


if __name__ == "__main__":
    main()
