"""Trials of whole processes: `redline compare --a ... --b ...` as a user has it."""

import shlex
import sys
from pathlib import Path

import redline
from bench.trial_times.record import TrialOutcome, outcome_of

STEPS = Path(__file__).with_name("units.py")
PLAIN = Path(__file__).with_name("plain.py")


def try_processes(extra: int, seed: int, script: Path = STEPS) -> TrialOutcome:
    """One trial, up to its end; of steps where the script has them, else of all of a process."""
    before, after = program(script, 0), program(script, extra)
    trial = redline.compare_programs(before, after, options=redline.TrialOptions(seed=seed)).trial
    if trial is None or trial.decision is None:
        raise RuntimeError(f"{after} was not timed")
    return outcome_of(extra, trial.decision, trial.pairs, trial.steps)


def program(script: Path, extra: int) -> str:
    return shlex.join([sys.executable, str(script), "--extra", str(extra)])
