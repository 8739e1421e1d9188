"""Two jobs that run at the same time and take turns: one goes on for some steps while the other stands still.

Processes that run one after the other differ by what the machine did meanwhile, often by more than a change gains. Two
that take turns of a quarter of a second see the same machine.
"""

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import fmean

from redline.launch.block_plan import DROPPED
from redline.launch.outside.trial_command import TrialCommand
from redline.launch.outside.trial_job import TrialJob
from redline.trials.trial_jobs import (
    WARM_UP,
    ProcessRun,
    TrialJobs,
    before_it_writes,
    process_run,
    raise_hanging,
    raise_if_failed,
    raise_if_left_behind,
)
from redline.trials.trial_pairs import TrialOptions

TURN_S = 0.25
_LEAST_KEPT = 2  # steps of a turn that count
_TICK_S = 0.002


class EndedEarlyError(Exception):
    """A job came to its end by itself: there are too few steps to take turns."""


def run_couple(
    jobs: TrialJobs, commands: Sequence[TrialCommand], order: Sequence[int], options: TrialOptions, until_s: float
) -> list[ProcessRun]:
    """Both from their start to the last step that is asked for; none where the time was spent before."""
    with ExitStack() as stack:
        running = [stack.enter_context(jobs.started(command)) for command in commands]
        turns = _Turns(running, options, until_s)
        times = turns.times(order)
        if times is None:
            return []
        for job in running:
            job.signal_all(signal.SIGCONT)
            job.end_after(job.steps())
        ended = [job.wait(until_s=until_s) for job in running]
        runs = []
        for job, over, step_s in zip(running, ended, times, strict=True):
            if over is None:
                return []
            raise_if_failed(job, over, before_it_writes(job.steps()))
            runs.append(process_run(job, over, step_s))
        jobs.cpu_s += max(over.cpu_s for over in ended if over is not None)  # that of the last has both
    for job in running:
        raise_if_left_behind(job, options)
    return runs


class _Turns:
    """Of two jobs."""

    def __init__(self, jobs: Sequence[TrialJob], options: TrialOptions, until_s: float) -> None:
        self._jobs = jobs
        self._options = options
        self._until_s = until_s

    def times(self, order: Sequence[int]) -> list[float] | None:
        """The average step of each; None where the time was spent before."""
        for job in self._jobs:
            job.pause_after(WARM_UP)
        for job in self._jobs:  # both at once: nothing is timed yet
            if not self._reached(job, WARM_UP):
                return None
        for job in self._jobs:
            job.signal_all(signal.SIGSTOP)
        step_s = min(fmean(_lengths_s(job, range(WARM_UP - 2, WARM_UP + 1))) for job in self._jobs)
        counted = self._options.steps - WARM_UP
        kept = min(max(round(TURN_S / max(step_s, 1e-6)), _LEAST_KEPT), counted)
        lengths_s: tuple[list[float], list[float]] = ([], [])
        while len(lengths_s[0]) < counted:
            for at in order:
                taken = self._turn(self._jobs[at], kept)
                if taken is None:
                    return None
                lengths_s[at].extend(taken)
        return [fmean(known) for known in lengths_s]

    def _turn(self, job: TrialJob, kept: int) -> list[float] | None:
        """The lengths of its steps, without the first, in which it stood still."""
        first = job.steps() + 1
        last = first + DROPPED + kept - 1
        job.pause_after(last)
        job.signal_all(signal.SIGCONT)
        if not self._reached(job, last):
            return None
        job.signal_all(signal.SIGSTOP)
        return _lengths_s(job, range(first + DROPPED, last + 1))

    def _reached(self, job: TrialJob, step: int) -> bool:
        """Whether it got there in time. Raises where it ended before, or hangs."""
        known, since_s = job.steps(), time.perf_counter()
        while job.steps() < step:
            now_s = time.perf_counter()
            if not job.is_running:
                _raise_ended(job)
            if job.steps() != known:
                known, since_s = job.steps(), now_s
            if now_s - since_s > self._options.stall_s:
                raise_hanging(job, self._options)
            if now_s > self._until_s:
                return False
            time.sleep(_TICK_S)
        return True


def _raise_ended(job: TrialJob) -> None:
    ended = job.wait()
    if ended is not None:
        raise_if_failed(job, ended, before_it_writes(job.steps()))
    raise EndedEarlyError


def _lengths_s(job: TrialJob, steps: range) -> list[float]:
    """Of each of these steps, counted from 1: the average over the ranks."""
    return [fmean(slot.entries[2 * (step - 1)] / 1e9 for slot in job.ranks()) for step in steps]
