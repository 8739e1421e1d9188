"""Times levers that can be switched between two steps, in blocks inside the processes of one job.

Levers are tried together, or one after the other in the same process: starting and warming up is paid for once.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from random import Random
from statistics import fmean

from redline.capture.block_plan import DROPPED, WARM_UP, BlockPlan
from redline.capture.shared_state import (
    BLOCK_STEPS,
    BLOCK_TURNS,
    ENTRIES,
    FIRST_BLOCK,
    LEVER_FROM,
    LEVER_NUMBER,
    PLANNED_AT,
)
from redline.capture.supervisor.trial_command import TrialCommand
from redline.capture.supervisor.trial_job import TrialJob
from redline.errors import InputError
from redline.trials.trial_jobs import TrialJobs, outcomes, raise_if_failed, raise_if_left_behind
from redline.trials.trial_pairs import Tell, TrialOptions, TrialPairs
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TimedPair, TrialResult, changed_nothing

_TOGETHER = 0  # instead of the number of one lever
LeverTold = Callable[[str, TrialResult], None]
BLOCK_S = 0.004  # that the steps of a block which count should last: the sooner both ways meet again, the better
LEAST_KEPT, MOST_KEPT = 2, 32
PAIR_S = 1.0  # that a pair should last, so that one hiccup is not all of it
MOST_TURNS = 100
_MARGIN_S = 0.2  # in which all ranks learn of the plan
_MARGIN_STEPS = 3


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
                turn.trial.fail(
                    f"{self._command}: it ended after {turn.steps} steps, too few for a pair of blocks; "
                    f"let it take at least {turn.timer.least_steps}, and better ten times as many",
                    Stopped.TOO_SHORT,
                )
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


def block_size(step_s: float, least: int) -> tuple[int, int]:
    """How many steps of a block count, at least so many, and how many blocks of a pair there are each way."""
    kept = min(max(round(BLOCK_S / step_s), least), MOST_KEPT)
    both_s = 2 * (DROPPED + kept) * step_s
    return kept, min(max(round(PAIR_S / both_s), 1), MOST_TURNS)


class BlockTimer:
    """Plans the blocks of a trial in one process of a job once that has warmed up, and times each pair that is over.

    A process may have one trial after the other: each begins where the one before was over.
    """

    def __init__(
        self,
        job: TrialJob,
        seed: int,
        goes_on: Callable[[], bool],
        timed: Callable[[TimedPair], bool],
        lever_number: int = 0,
    ) -> None:
        self._job = job
        self._seed = seed
        self._begun = self._begin(lever_number)
        self._goes_on = goes_on  # asked once it has warmed up
        self._timed = timed  # whether that was enough
        self._plan: BlockPlan | None = None
        self._next = 0  # pair
        self.is_over = False

    def _begin(self, lever_number: int) -> int:
        """The step with which the trial begins."""
        steps = self._job.steps()
        if not steps or self._job.shared is None:
            begun = 1
        else:
            begun = steps + self._margin(self._seconds(range(max(steps - LEAST_KEPT, 0) + 1, steps + 1)))
        if self._job.shared is not None:
            self._job.shared.job_words[BLOCK_STEPS] = 0
            self._job.shared.job_words[LEVER_FROM] = begun
            self._job.shared.job_words[LEVER_NUMBER] = lever_number  # last: it says that the others are there
        return begun

    @staticmethod
    def _margin(step_s: float) -> int:
        """Steps in which all ranks learn of something."""
        return _MARGIN_STEPS + round(_MARGIN_S / step_s)

    @property
    def kept(self) -> int:
        """Steps of a pair that count, each way; 0 before it is known."""
        return self._plan.kept * self._plan.turns if self._plan else 0

    @property
    def least_steps(self) -> int:
        """That a job must take for one pair, as far as is known."""
        return self._plan.last(0) if self._plan else self._begun + 2 * (WARM_UP + LEAST_KEPT) + _MARGIN_STEPS

    def look(self) -> None:
        """To be called from time to time."""
        steps = self._job.steps()
        if self.is_over or steps < self._begun - 1 + 2 * WARM_UP + LEAST_KEPT:
            return
        if self._plan is None:
            self.is_over = not self._goes_on()
            if not self.is_over:
                self._plan = self._planned(steps)
            return
        is_enough = False
        while not is_enough and self._has_room() and steps >= self._plan.last(self._next):
            is_enough = self._time(self._plan, self._next)
            self._next += 1
        self.is_over = is_enough or not self._has_room()

    def _has_room(self) -> bool:
        """For the next pair: of more steps not every one is kept, and another process has to go on."""
        return self._plan is not None and self._plan.last(self._next) <= ENTRIES

    def _planned(self, steps: int) -> BlockPlan:
        step_s = self._seconds(range(steps - LEAST_KEPT + 1, steps + 1))
        kept, turns = block_size(step_s, LEAST_KEPT)
        first = steps + self._margin(step_s)
        plan = BlockPlan(seed=self._seed, first=first, kept=kept, turns=turns, begun=self._begun)
        if self._job.shared is not None:
            self._job.shared.job_words[FIRST_BLOCK] = plan.first
            self._job.shared.job_words[BLOCK_TURNS] = plan.turns
            self._job.shared.job_words[BLOCK_STEPS] = plan.kept  # last: it says that the others are there
        return plan

    def _time(self, plan: BlockPlan, pair: int) -> bool:
        without, changed = plan.counted(pair)
        known_at = max(slot.words[PLANNED_AT] for slot in self._job.ranks())
        if min(*without, *changed) <= known_at:  # a rank learnt of the plan too late
            return False
        return self._timed(TimedPair(before_s=self._seconds(without), after_s=self._seconds(changed)))

    def _seconds(self, steps: Iterable[int]) -> float:
        """Of a step, over steps and ranks: the average, as rare long steps are paid for too."""
        return fmean(slot.entries[2 * (step - 1)] / 1e9 for step in steps for slot in self._job.ranks())
