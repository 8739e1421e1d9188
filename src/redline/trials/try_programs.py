"""Times programs in turns: levers in blocks inside one process, everything else in pairs of processes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from statistics import fmean

from redline.errors import InputError
from redline.launch.outside.trial_command import TrialCommand
from redline.launch.outside.trial_job import Finished, TrialJob, start_trial
from redline.launch.settings import Settings
from redline.trials.step_blocks import BlockTimer
from redline.trials.trial_pairs import Tell, TrialOptions, TrialPairs, decided
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TimedPair, TrialResult

_PROCESS_WARM_UP = 10  # first steps of a process that do not count, where whole processes are compared
_LEAST_STEPS = 3  # of a process that count


def try_lever(command: TrialCommand, options: TrialOptions, tell: Tell = lambda decision: None) -> TrialResult:
    """Switch the levers of the command on and off inside its processes, block by block."""
    trial = TrialPairs(options, tell)
    jobs = _Jobs(options, trial)
    seeds = Random(options.seed)
    outcomes: tuple[LeverOutcome, ...] = ()
    kept = steps = ranks = 0

    def goes_on(job: TrialJob) -> bool:
        nonlocal outcomes
        outcomes = _outcomes(job)
        if _changed_nothing(outcomes):
            trial.stopped = Stopped.NOTHING_CHANGED
        return not trial.stopped

    while not trial.stopped:
        seed, before = seeds.randrange(1, 1 << 30), len(trial.pairs)
        with jobs.started(command, seed) as job:
            timer = BlockTimer(job, seed, goes_on, trial.add)
            ended = jobs.wait(job, timer.look)
            if ended is not None:
                _raise_if_failed(job, ended, "let it write nothing, or end by itself before that")
            steps += job.steps()
            kept, ranks = timer.kept, max(len(job.ranks()), 1)
            if not trial.stopped and len(trial.pairs) == before:  # otherwise another one may go on where it ended
                raise InputError(
                    f"{command}: it ended after {job.steps()} steps, too few for a pair of blocks; "
                    f"let it take at least {timer.least_steps}, and better ten times as many"
                )
    return trial.result(
        before=str(command),
        after=_with_levers(command),
        timed=Timed.STEP_IN_BLOCKS,
        block_steps=kept,
        steps=steps,
        processes=jobs.processes,
        ranks=ranks,
        levers=outcomes,
    )


def try_commands(
    before: TrialCommand, after: TrialCommand, options: TrialOptions, tell: Tell = lambda decision: None
) -> TrialResult:
    """Run whole processes of both in pairs, in random order; one of each first, so that caches are warm."""
    trial = TrialPairs(options, tell)
    jobs = _Jobs(options, trial)
    order = Random(options.seed)
    commands = (before, after)
    runs = [jobs.run(command) for command in commands]
    has_steps = all(run.step_s is not None for run in runs)
    outcomes = runs[1].levers
    if _changed_nothing(outcomes):
        trial.stopped = Stopped.NOTHING_CHANGED
    cpu: list[TimedPair] = []
    while not trial.stopped:
        for at in order.sample((0, 1), 2):
            runs[at] = jobs.run(commands[at])
        cpu.append(TimedPair(before_s=runs[0].ended.cpu_s, after_s=runs[1].ended.cpu_s))
        trial.add(TimedPair(before_s=runs[0].seconds(has_steps), after_s=runs[1].seconds(has_steps)))
    return trial.result(
        before=str(before),
        after=_with_levers(after),
        timed=Timed.STEP_OF_PROCESS if has_steps else Timed.WHOLE_PROCESS,
        block_steps=options.steps - _PROCESS_WARM_UP if has_steps else 0,
        steps=jobs.processes * options.steps if has_steps else 0,
        processes=jobs.processes,
        ranks=runs[1].ranks,
        levers=outcomes,
        cpu=decided(cpu),
    )


def _with_levers(command: TrialCommand) -> str:
    return f"{command} with {' '.join(command.levers)}" if command.levers else str(command)


def _changed_nothing(outcomes: tuple[LeverOutcome, ...]) -> bool:
    return bool(outcomes) and not any(outcome.took for outcome in outcomes)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One process of a command."""

    ended: Finished
    step_s: float | None  # None where it took too few steps
    ranks: int
    levers: tuple[LeverOutcome, ...]

    def seconds(self, has_steps: bool) -> float:
        return self.step_s if has_steps and self.step_s is not None else self.ended.wall_s


class _Jobs:
    """Starts the jobs of a trial, each in a folder of its own."""

    def __init__(self, options: TrialOptions, trial: TrialPairs) -> None:
        self._options = options
        self._trial = trial
        self.processes = 0

    def started(self, command: TrialCommand, seed: int = 0) -> AbstractContextManager[TrialJob]:
        """With its levers switched on and off in blocks where there is a seed for that."""
        self.processes += 1
        settings = Settings({"capture": False, "on_trial": True, "block_seed": seed, "timed_after_s": 0.0})
        return start_trial(command, settings, allow_writes=self._options.allow_writes)

    def wait(self, job: TrialJob, look: Callable[[], None] = lambda: None) -> Finished | None:
        """None where the time was spent before it ended; it is ended then."""
        ended = job.wait(look, self._trial.until_s)
        if ended is None:
            self._trial.stopped = Stopped.TIME_SPENT
            return None
        self._trial.used_cpu(ended.cpu_s)
        return ended

    def run(self, command: TrialCommand) -> _Run:
        """A whole process, up to the last step that is asked for."""
        with self.started(command) as job:
            job.end_after(self._options.steps)
            ended = self.wait(job)
            if ended is None:
                raise InputError(f"{command}: it did not end within the time of the trial; give it fewer steps")
            _raise_if_failed(job, ended, _before_it_writes(job.steps()))
            return _Run(ended=ended, step_s=_step_s(job), ranks=max(len(job.ranks()), 1), levers=_outcomes(job))


def _before_it_writes(steps: int) -> str:
    """What to do about a file that a process would write after so many steps: it may end before, if enough count."""
    is_enough = steps >= _PROCESS_WARM_UP + _LEAST_STEPS
    return f"let it write nothing, end it before (`steps={steps}`)" if is_enough else "let it write nothing"


def _raise_if_failed(job: TrialJob, ended: Finished, otherwise: str) -> None:
    """A job that ended in another way than it should is no measurement."""
    if ended.exit_code:
        job.raise_if_it_wrote(otherwise)
        raise InputError(f"{job.command}: it ended with {ended.exit_code}: {job.last_error()}")


def _step_s(job: TrialJob) -> float | None:
    """The average step of a process, over its ranks, without the first ones."""
    counted = [slot.steps()[0][_PROCESS_WARM_UP:] for slot in job.ranks()]
    if not counted or min(map(len, counted)) < _LEAST_STEPS:
        return None
    return fmean(fmean(lengths) for lengths in counted) / 1e9


def _outcomes(job: TrialJob) -> tuple[LeverOutcome, ...]:
    told = job.facts().get("levers", [])
    known = told if isinstance(told, list) else []
    return tuple(
        LeverOutcome(lever=lever, took=bool(took), what=str(what))
        for lever, (took, what) in zip(job.command.levers, known, strict=False)
    )
