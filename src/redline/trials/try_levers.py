"""Times levers that can be switched between two steps, in blocks inside the processes of one job.

Levers are tried together, or one after the other in the same process: starting and warming up is paid for once.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from random import Random

from redline.capture.supervisor.trial_command import TrialCommand
from redline.capture.supervisor.trial_job import TrialJob
from redline.errors import InputError
from redline.trials.step_blocks import BlockTimer
from redline.trials.trial_jobs import TrialJobs, outcomes, raise_if_failed, raise_if_left_behind
from redline.trials.trial_pairs import Tell, TrialOptions, TrialPairs
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TrialResult, changed_nothing

_TOGETHER = 0  # instead of the number of one lever

LeverTold = Callable[[str, TrialResult], None]


def try_lever(command: TrialCommand, options: TrialOptions, tell: Tell = lambda decision: None) -> TrialResult:
    """Switch the levers of the command on and off together, block by block. InputError where the job fails."""
    trial = _LeverTrial(command, options, tell, _TOGETHER)
    _Race(command, options, [trial]).run(trial.raise_error)
    return trial.result()


def try_levers(
    command: TrialCommand, options: TrialOptions, told: LeverTold, tell: Tell = lambda decision: None
) -> None:
    """Try each lever of the command alone, one after the other; what is known of one is told as soon as it is."""
    trials = [_LeverTrial(command, options, tell, number) for number in range(1, len(command.levers) + 1)]

    def over(trial: _LeverTrial) -> None:
        told(trial.lever, trial.result())

    _Race(command, options, trials).run(over)


class _LeverTrial:
    """One lever, or all of them together."""

    def __init__(self, command: TrialCommand, options: TrialOptions, tell: Tell, number: int) -> None:
        self._command = command
        self._options = options
        self._tell = tell
        self.number = number
        self.outcomes: tuple[LeverOutcome, ...] = ()
        self.jobs = TrialJobs(options)
        self.steps = self.block_steps = 0
        self.ranks = 1
        self.error = ""
        self._pairs: TrialPairs | None = None

    @property
    def lever(self) -> str:
        return " ".join(self._levers)

    @property
    def _levers(self) -> tuple[str, ...]:
        return self._command.levers[self.number - 1 : self.number] if self.number else self._command.levers

    @property
    def after(self) -> str:
        return replace(self._command, levers=self._levers).with_levers

    @property
    def pairs(self) -> TrialPairs:
        """Its time runs from the first use on."""
        self._pairs = self._pairs or TrialPairs(self._options, self._tell)
        return self._pairs

    def fail(self, error: str, stopped: Stopped = Stopped.FAILED) -> None:
        self.error = error
        self.pairs.stopped = stopped

    def look_at_levers(self, job: TrialJob) -> bool:
        """Whether there is something to be timed."""
        told = outcomes(job)
        self.outcomes = told[self.number - 1 : self.number] if self.number else told
        if changed_nothing(self.outcomes):
            self.pairs.stopped = Stopped.NOTHING_CHANGED
        return not self.pairs.stopped

    def raise_error(self, _: object = None) -> None:
        if self.error:
            raise InputError(self.error)

    def result(self) -> TrialResult:
        return self.pairs.result(
            self.jobs.cpu_s or None,  # what it used is known once its process has ended
            before=str(self._command),
            after=self.after,
            timed=Timed.STEP_IN_BLOCKS,
            block_steps=self.block_steps,
            steps=self.steps,
            processes=self.jobs.processes,
            ranks=self.ranks,
            levers=self.outcomes,
            error=self.error,
        )


class _Race:
    """Trials in turn, in as few processes as they need."""

    def __init__(self, command: TrialCommand, options: TrialOptions, trials: Sequence[_LeverTrial]) -> None:
        self._command = command
        self._options = options
        self._seeds = Random(options.seed)
        self._waiting = list(trials)  # the first one is on trial

    def run(self, over: Callable[[_LeverTrial], None]) -> None:
        """Each trial is told when it is over. One with which the job fails is, and the others go on without it."""
        while self._waiting:
            try:
                self._in_one_process(over)
            except InputError as error:
                self._waiting[0].fail(str(error))
            if self._waiting[0].pairs.stopped:
                over(self._waiting.pop(0))

    def _in_one_process(self, over: Callable[[_LeverTrial], None]) -> None:
        """At its end the first trial that waits is over, or another process goes on with it."""
        seed = self._seeds.randrange(1, 1 << 30)
        jobs = self._waiting[0].jobs
        is_alone = len(self._command.levers) == 1 or self._waiting[0].number == _TOGETHER
        with jobs.started(self._command, seed) as job:
            turn = _Turn(self._waiting[0], job, seed)

            def goes_on() -> bool:
                nonlocal turn
                stopped = turn.look()
                if stopped is Stopped.TIME_SPENT:  # perhaps it hangs: nothing more of this process
                    return False
                if stopped and len(self._waiting) > 1:
                    turn.end()
                    over(self._waiting.pop(0))
                    turn = _Turn(self._waiting[0], job, seed)
                elif stopped or turn.timer.is_over:
                    job.end_after(job.steps() + 1)
                return True

            try:
                ended = jobs.wait(job, goes_on, inf)
            finally:
                turn.end()
            if ended is not None and not (turn.has_pairs and job.wrote() is not None):
                raise_if_failed(job, ended, "let it write nothing, or end by itself before that", turn.trial.after)
            if not turn.trial.pairs.stopped and not turn.has_pairs:
                turn.trial.fail(_too_short(self._command, turn), Stopped.TOO_SHORT)
        if ended is not None and is_alone:  # otherwise nobody knows whose they are
            raise_if_left_behind(job, self._options)


class _Turn:
    """One trial in one process."""

    def __init__(self, trial: _LeverTrial, job: TrialJob, seed: int) -> None:
        self.trial = trial
        self._job = job
        self._first = job.steps()
        self._pairs = len(trial.pairs.pairs)
        self.timer = BlockTimer(job, seed, partial(trial.look_at_levers, job), trial.pairs.add, trial.number)

    def look(self) -> Stopped | None:
        """Why the trial is over; None where it goes on."""
        pairs = self.trial.pairs
        self.timer.look()
        if not pairs.stopped and time.perf_counter() > pairs.until_s:
            pairs.stopped = Stopped.TIME_SPENT
        return pairs.stopped

    @property
    def has_pairs(self) -> bool:
        return len(self.trial.pairs.pairs) > self._pairs

    @property
    def steps(self) -> int:
        return self._job.steps() - self._first

    def end(self) -> None:
        self.trial.steps += self.steps
        self.trial.block_steps = self.timer.kept or self.trial.block_steps
        self.trial.ranks = max(len(self._job.ranks()), 1)


def _too_short(command: TrialCommand, turn: _Turn) -> str:
    return (
        f"{command}: it ended after {turn.steps} steps, too few for a pair of blocks; "
        f"let it take at least {turn.timer.least_steps}, and better ten times as many"
    )
