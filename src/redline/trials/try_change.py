"""Times a change against its absence until the pairs decide or the budget is spent."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from secrets import randbelow
from statistics import fmean

from redline.errors import InputError
from redline.launch.block_plan import WARM_UP
from redline.launch.outside.scratch_folder import guarded_folders, make_scratch
from redline.launch.outside.trial_job import Finished, TimedCommand, TrialJob
from redline.launch.settings import Settings
from redline.trials.decision import MOST_PAIRS, Decision, TrialVerdict, decide
from redline.trials.machine_load import MachineLoad
from redline.trials.step_blocks import LEAST_KEPT, BlockTimer, TimedPair
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TrialResult

PROCESS_STEPS = 30  # of each process, where whole processes are compared
_PROCESS_WARM_UP = 10  # first steps of these that do not count
_LEAST_STEPS = 3  # of a process that count


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """How much may be spent on a trial, and what the programs may do."""

    pairs: int = MOST_PAIRS
    max_time_s: float = 1800.0
    steps: int = PROCESS_STEPS  # of each process, where whole processes are compared
    seed: int = field(default_factory=lambda: 1 + randbelow(1 << 30))  # of the random order within pairs
    allow_writes: bool = False  # to files of the user


Tell = Callable[[Decision], None]  # after every pair


def try_lever(command: TimedCommand, options: TrialOptions, tell: Tell = lambda decision: None) -> TrialResult:
    """Switch the levers of the command on and off inside its processes, block by block."""
    trial = _Trial(options, tell)
    kept = steps = ranks = 0
    outcomes: tuple[LeverOutcome, ...] = ()
    while not trial.stopped:
        with make_scratch(Path.cwd()) as folder, trial.started(command, folder, seed=trial.next_seed()) as job:

            def warmed_up(job: TrialJob = job) -> bool:
                nonlocal outcomes
                outcomes = _outcomes(job)
                if outcomes and not any(outcome.took for outcome in outcomes):
                    trial.stopped = Stopped.NOTHING_CHANGED
                return not trial.stopped

            timer = BlockTimer(job, trial.last_seed, warmed_up, trial.add)
            before = len(trial.pairs)
            trial.wait(job, timer.look)
            steps += job.steps()
            kept, ranks = timer.kept, len(job.ranks())
            if not trial.stopped:
                trial.check_length(job, len(trial.pairs) - before)
    return trial.result(
        before=str(command),
        after=f"{command} with {' '.join(command.levers)}",
        timed=Timed.STEP_IN_BLOCKS,
        block_steps=kept,
        steps=steps,
        ranks=max(ranks, 1),
        levers=outcomes,
    )


def try_commands(
    before: TimedCommand, after: TimedCommand, options: TrialOptions, tell: Tell = lambda decision: None
) -> TrialResult:
    """Run whole processes of both in pairs, in random order; one of each first, so that caches are warm."""
    trial = _Trial(options, tell)
    cpu: list[TimedPair] = []
    order = Random(options.seed)
    commands = (before, after)
    runs = [trial.run(command) for command in commands]
    has_steps = all(run.step_s is not None for run in runs)
    outcomes = runs[1].levers
    if outcomes and not any(outcome.took for outcome in outcomes):
        trial.stopped = Stopped.NOTHING_CHANGED
    while not trial.stopped:
        for at in order.sample((0, 1), 2):
            runs[at] = trial.run(commands[at])
        cpu.append(TimedPair(before_s=runs[0].ended.cpu_s, after_s=runs[1].ended.cpu_s))
        trial.add(TimedPair(before_s=runs[0].seconds(has_steps), after_s=runs[1].seconds(has_steps)))
    counted = options.steps - _PROCESS_WARM_UP
    return trial.result(
        before=str(before),
        after=" with ".join([str(after), *([" ".join(after.levers)] if after.levers else [])]),
        timed=Timed.STEP_OF_PROCESS if has_steps else Timed.WHOLE_PROCESS,
        block_steps=counted if has_steps else 0,
        steps=2 * (len(cpu) + 1) * options.steps if has_steps else 0,
        ranks=runs[1].ranks,
        levers=outcomes,
        cpu=_decided(cpu),
    )


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One process of a command."""

    ended: Finished
    step_s: float | None  # None where it took too few steps
    ranks: int
    levers: tuple[LeverOutcome, ...]

    def seconds(self, has_steps: bool) -> float:
        return self.step_s if has_steps and self.step_s is not None else self.ended.wall_s


class _Trial:
    """The pairs so far, and what was spent on them."""

    def __init__(self, options: TrialOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._load = MachineLoad()
        self._started_s = time.perf_counter()
        self._cpu_s = 0.0
        self._processes = 0
        self._seeds = Random(options.seed)
        self.last_seed = 0
        self.pairs: list[TimedPair] = []
        self.stopped: Stopped | None = None

    def next_seed(self) -> int:
        self.last_seed = self._seeds.randrange(1, 1 << 30)
        return self.last_seed

    def started(self, command: TimedCommand, folder: Path, seed: int = 0) -> TrialJob:
        self._processes += 1
        settings = Settings({"capture": False, "on_trial": True, "block_seed": seed, "timed_after_s": 0.0})
        if not self._options.allow_writes:
            settings.guarded = tuple(map(str, guarded_folders(command, Path.cwd())))
            settings.scratch = str(folder)
        return TrialJob(command, settings, folder)

    def wait(self, job: TrialJob, look: Callable[[], None]) -> Finished:
        ended = job.wait(look)
        self._cpu_s += ended.cpu_s
        job.raise_if_failed()
        return ended

    def run(self, command: TimedCommand) -> _Run:
        """A whole process, up to the last step that is asked for."""
        with make_scratch(Path.cwd()) as folder, self.started(command, folder) as job:
            job.end_after(self._options.steps)
            ended = self.wait(job, lambda: None)
            return _Run(ended=ended, step_s=_step_s(job), ranks=max(len(job.ranks()), 1), levers=_outcomes(job))

    def add(self, pair: TimedPair) -> bool:
        """Whether that was enough."""
        self.pairs.append(pair)
        decision = _decided(self.pairs)
        assert decision is not None
        self._tell(decision)
        if decision.verdict is not TrialVerdict.UNDECIDED:
            self.stopped = Stopped.DECIDED
        elif len(self.pairs) >= self._options.pairs:
            self.stopped = Stopped.PAIRS_SPENT
        elif time.perf_counter() - self._started_s > self._options.max_time_s:
            self.stopped = Stopped.TIME_SPENT
        return self.stopped is not None

    def check_length(self, job: TrialJob, pairs: int) -> None:
        """The job ended by itself: another one may go on where this one gave some pairs."""
        if not pairs:
            least = 2 * WARM_UP + 4 * LEAST_KEPT
            raise InputError(
                f"{job.command}: it ended after {job.steps()} steps, too few for a pair of blocks; "
                f"let it take more, at least {least} and better some hundreds"
            )

    def result(self, **known: object) -> TrialResult:
        assert self.stopped is not None
        return TrialResult(
            stopped=self.stopped,
            decision=_decided(self.pairs),
            pairs=tuple(self.pairs),
            processes=self._processes,
            wall_s=time.perf_counter() - self._started_s,
            others_share=self._load.of_others(self._cpu_s),
            seed=self._options.seed,
            **known,  # type: ignore[arg-type]
        )


def _decided(pairs: list[TimedPair]) -> Decision | None:
    return decide([pair.before_s for pair in pairs], [pair.after_s for pair in pairs]) if pairs else None


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
