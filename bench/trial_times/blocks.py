"""Trials in blocks of one process: pairs are recorded in a row and cut where each trial would have ended."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.trial_times.record import TrialOutcome, outcome_of
from redline.capture.settings import Settings
from redline.capture.supervisor.trial_command import trial_command
from redline.capture.supervisor.trial_job import start_trial
from redline.trials.paired_sequence import MOST_PAIRS, TrialVerdict, decide
from redline.trials.trial_result import TimedPair
from redline.trials.try_levers import BlockTimer

JOB = Path(__file__).with_name("units.py")


def record_trials(extra: int, trials: int, seed: int) -> list[TrialOutcome]:
    """So many trials of one process, one after the other, each with fresh pairs."""
    command = trial_command((sys.executable, str(JOB), "--switched", str(extra)), ("switch=extra",))
    settings = Settings({"capture": False, "on_trial": True, "block_seed": seed, "timed_after_s": 0.0})
    pairs: list[TimedPair] = []
    outcomes: list[TrialOutcome] = []

    def timed(pair: TimedPair) -> bool:
        pairs.append(pair)
        outcome = trial_end(pairs, extra, job.steps() - sum(one.steps for one in outcomes))
        if outcome is not None:
            outcomes.append(outcome)
            pairs.clear()
        return len(outcomes) >= trials

    with start_trial(command, settings) as job:
        timer = BlockTimer(job, seed, lambda: True, timed)

        def goes_on() -> bool:
            timer.look()
            if timer.is_over:
                job.end_after(job.steps() + 1)
            return True

        ended = job.wait(goes_on)
        if ended is None or ended.exit_code:
            raise RuntimeError(job.last_error())
    return outcomes


def trial_end(pairs: Sequence[TimedPair], extra: int, steps: int) -> TrialOutcome | None:
    """None while the trial would go on."""
    decision = decide([pair.before_s for pair in pairs], [pair.after_s for pair in pairs])
    if decision.verdict is TrialVerdict.UNDECIDED and len(pairs) < MOST_PAIRS:
        return None
    return outcome_of(extra, decision, pairs, steps)
