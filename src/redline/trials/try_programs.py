"""Times programs in turns, in pairs of whole processes."""

from collections.abc import Sequence
from random import Random

from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError
from redline.trials.trial_jobs import WARM_UP, ProcessRun, TrialJobs
from redline.trials.trial_pairs import Tell, TrialOptions, TrialPairs, decided
from redline.trials.trial_result import Stopped, Timed, TimedPair, TrialResult, changed_nothing


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
