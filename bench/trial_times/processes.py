"""Trials of whole processes: `redline compare --a ... --b ...` as a user has it."""

import shlex
import sys
from pathlib import Path

import redline
from bench.trial_times.record import TrialOutcome
from redline.trials.paired_sequence import excludes

STEPS = Path(__file__).with_name("units.py")
PLAIN = Path(__file__).with_name("plain.py")


def try_processes(extra: int, seed: int, script: Path = STEPS) -> TrialOutcome:
    """One trial, up to its end; of steps where the script has them, else of all of a process."""
    before, after = program(script, 0), program(script, extra)
    trial = redline.compare_programs(before, after, options=redline.TrialOptions(seed=seed)).trial
    if trial is None or trial.decision is None:
        raise RuntimeError(f"{after} was not timed")
    known = trial.decision.estimate
    pairs = tuple((pair.before_s, pair.after_s) for pair in trial.pairs)
    return TrialOutcome(
        extra=extra,
        verdict=str(trial.decision.verdict),
        change=known.change,
        low=known.low,
        high=known.high,
        covered=not excludes([pair[0] for pair in pairs], [pair[1] for pair in pairs], extra / 100),
        pairs=pairs,
        steps=trial.steps,
    )


def program(script: Path, extra: int) -> str:
    return shlex.join([sys.executable, str(script), "--extra", str(extra)])
