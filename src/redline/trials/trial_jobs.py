"""Starts the jobs of a trial and waits for them, as far as they may take and as long as they get on."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean, median

from redline.capture.settings import Settings
from redline.capture.shared_state import PEAK_BYTES
from redline.capture.supervisor.trial_command import TrialCommand
from redline.capture.supervisor.trial_job import Finished, TrialJob, start_trial
from redline.errors import InputError
from redline.trials.trial_pairs import Tell, TrialOptions, TrialPairs, decided
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TimedPair, TrialResult, changed_nothing

WARM_UP = 10  # first steps of a process that do not count, where whole processes are compared
_LEAST_STEPS = 3  # of a process that count
RUNS = 3  # of each: peaks of the same program hardly differ
_NEGLIGIBLE = 0.01


@dataclass(frozen=True, kw_only=True)
class ProcessRun:
    """One process of a command, or all ranks of it."""

    ended: Finished
    step_s: float | None  # None where it took too few steps
    ranks: int
    peak_bytes: int  # of the rank that had most
    levers: tuple[LeverOutcome, ...]
    left_processes: int = 0  # that outlived it

    def seconds(self, has_steps: bool) -> float:
        return self.step_s if has_steps and self.step_s is not None else self.ended.wall_s


class TrialJobs:
    """The jobs of a trial, each in a folder of its own."""

    def __init__(self, options: TrialOptions) -> None:
        self._options = options
        self.processes = 0
        self.cpu_s = 0.0  # of all that have ended

    def started(self, command: TrialCommand, seed: int = 0) -> AbstractContextManager[TrialJob]:
        """With its levers switched on and off in blocks where there is a seed for that."""
        self.processes += 1
        settings = Settings({"capture": False, "on_trial": True, "block_seed": seed, "timed_after_s": 0.0})
        return start_trial(command, settings, allow_writes=self._options.allow_writes)

    def wait(self, job: TrialJob, goes_on: Callable[[], bool], until_s: float) -> Finished | None:
        """None where it was ended before it had come to its end. InputError where it hangs."""
        known, since_s = 0, time.perf_counter()

        def gets_on() -> bool:
            nonlocal known, since_s
            if job.steps() != known:
                known, since_s = job.steps(), time.perf_counter()
            if time.perf_counter() - since_s > self._options.stall_s:
                raise InputError(f"{job.command}: it hangs: it took no step for {self._options.stall_s:g} s")
            return goes_on()

        ended = job.wait(gets_on, until_s)
        if ended is not None:
            self.cpu_s += ended.cpu_s
        return ended

    def run(self, command: TrialCommand, until_s: float) -> ProcessRun | None:
        """A whole process, up to the last step that is asked for; None where the time was spent before."""
        with self.started(command) as job:
            job.end_after(self._options.steps)
            ended = self.wait(job, lambda: True, until_s)
            if ended is None:
                return None
            raise_if_failed(job, ended, _before_it_writes(job.steps()))
            run = ProcessRun(
                ended=ended,
                step_s=_step_s(job),
                ranks=max(len(job.ranks()), 1),
                peak_bytes=max((slot.words[PEAK_BYTES] for slot in job.ranks()), default=0),
                levers=outcomes(job),
            )
        raise_if_left_behind(job, self._options)
        return replace(run, left_processes=job.left_processes)


def raise_if_failed(job: TrialJob, ended: Finished, otherwise: str, program: str = "") -> None:
    """A job that ended in another way than it should is no measurement; `program` is what ran last in it."""
    if ended.exit_code:
        job.raise_if_it_wrote(otherwise)
        raise InputError(f"{program or job.command.with_levers}: it ended with {ended.exit_code}: {job.last_error()}")


def raise_if_left_behind(job: TrialJob, options: TrialOptions) -> None:
    """Once it is over."""
    if options.left_processes is not None and job.left_processes > options.left_processes:
        raise InputError(
            f"{job.command.with_levers}: {job.left_processes} of its processes went on after its end, and were ended"
        )


def outcomes(job: TrialJob) -> tuple[LeverOutcome, ...]:
    """What the levers that are tried have done, as far as it is known."""
    return _told(job, "levers", job.command.levers)


def _told(job: TrialJob, name: str, levers: tuple[str, ...]) -> tuple[LeverOutcome, ...]:
    told = job.facts().get(name, [])
    known = told if isinstance(told, list) else []
    return tuple(
        LeverOutcome(lever=lever, took=bool(took), what=str(what))
        for lever, (took, what) in zip(levers, known, strict=False)
    )


def _before_it_writes(steps: int) -> str:
    """What to do about a file that a process would write after so many steps: it may end before, if enough count."""
    is_enough = steps >= WARM_UP + _LEAST_STEPS
    return f"let it write nothing, end it before (`steps={steps}`)" if is_enough else "let it write nothing"


def _step_s(job: TrialJob) -> float | None:
    """The average step of a process, over its ranks, without the first ones."""
    counted = [slot.steps()[0][WARM_UP:] for slot in job.ranks()]
    if not counted or min(map(len, counted)) < _LEAST_STEPS:
        return None
    return fmean(fmean(lengths) for lengths in counted) / 1e9


def try_commands(
    before: TrialCommand, after: TrialCommand, options: TrialOptions, tell: Tell = lambda decision: None
) -> TrialResult:
    """Run whole processes of both in pairs, in random order; one of each first, so that caches are warm."""
    trial = TrialPairs(options, tell)
    jobs = TrialJobs(options)
    order = Random(options.seed)
    commands = (before, after)
    cpu: list[TimedPair] = []
    runs = _both(jobs, commands, (0, 1), trial)
    if not runs:
        raise InputError(f"{before}: it did not end within the time of the trial; give it fewer steps")
    has_steps = all(run.step_s is not None for run in runs)
    outcomes = runs[1].levers
    if changed_nothing(outcomes):
        trial.stopped = Stopped.NOTHING_CHANGED
    while not trial.stopped:
        runs = _both(jobs, commands, order.sample((0, 1), 2), trial) or runs
        if trial.stopped:
            break
        cpu.append(TimedPair(before_s=runs[0].ended.cpu_s, after_s=runs[1].ended.cpu_s))
        trial.add(TimedPair(before_s=runs[0].seconds(has_steps), after_s=runs[1].seconds(has_steps)))
    return trial.result(
        jobs.cpu_s,
        before=str(before) if before.kept == after.kept else before.with_levers,
        after=after.with_levers,
        timed=Timed.STEP_OF_PROCESS if has_steps else Timed.WHOLE_PROCESS,
        block_steps=options.steps - WARM_UP if has_steps else 0,
        steps=jobs.processes * options.steps if has_steps else 0,
        processes=jobs.processes,
        ranks=runs[1].ranks,
        levers=outcomes,
        cpu=decided(cpu),
        before_peak_bytes=runs[0].peak_bytes,
        after_peak_bytes=runs[1].peak_bytes,
    )


def _both(
    jobs: TrialJobs, commands: Sequence[TrialCommand], order: Sequence[int], trial: TrialPairs
) -> list[ProcessRun]:
    """One run of each; none where the time was spent before both were over."""
    runs: dict[int, ProcessRun] = {}
    for at in order:
        run = jobs.run(commands[at], trial.until_s)
        if run is None:
            trial.stopped = Stopped.TIME_SPENT
            return []
        runs[at] = run
    return [runs[0], runs[1]]


@dataclass(frozen=True, kw_only=True)
class MemoryTrial:
    """How much memory a job needs at its peak, with and without a change, in whole processes.

    Of the rank that needs most, in each run.
    """

    before_bytes: tuple[int, ...]
    after_bytes: tuple[int, ...]
    before_step_s: tuple[float, ...]  # what it costs or gains; empty where too few steps were taken
    after_step_s: tuple[float, ...]
    error: str = ""  # why it failed

    @property
    def change(self) -> float:
        """As a share of the memory without it."""
        return median(self.after_bytes) / median(self.before_bytes) - 1 if self.is_known else 0.0

    @property
    def is_known(self) -> bool:
        return bool(self.before_bytes and self.after_bytes and min(self.before_bytes) > 0 and not self.error)

    @property
    def is_less(self) -> bool:
        """In every run, by more than nothing."""
        return self.is_known and max(self.after_bytes) < (1 - _NEGLIGIBLE) * min(self.before_bytes)


def try_memory(before: TrialCommand, after: TrialCommand, options: TrialOptions) -> MemoryTrial:
    """Some processes of both, in random order. InputError where one fails."""
    jobs = TrialJobs(options)
    until_s = TrialPairs(options, lambda decision: None).until_s
    order = Random(options.seed)
    peaks: tuple[list[int], list[int]] = ([], [])
    steps_s: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS):
        for at in order.sample((0, 1), 2):
            command = (before, after)[at]
            run = jobs.run(command, until_s)
            if run is None:
                raise InputError(f"{command.with_levers}: it did not end within the time of the trial")
            peaks[at].append(run.peak_bytes)
            if run.step_s is not None:
                steps_s[at].append(run.step_s)
    return MemoryTrial(
        before_bytes=tuple(peaks[0]),
        after_bytes=tuple(peaks[1]),
        before_step_s=tuple(steps_s[0]),
        after_step_s=tuple(steps_s[1]),
    )
