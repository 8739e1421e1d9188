"""Times programs in turns, in pairs of whole processes."""

from random import Random

from redline.launch.outside.trial_command import TrialCommand
from redline.trials.trial_jobs import WARM_UP, TrialJobs
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
    runs = [jobs.run(command, trial.until_s) for command in commands]
    has_steps = all(run.step_s is not None for run in runs)
    outcomes = runs[1].levers
    if changed_nothing(outcomes):
        trial.stopped = Stopped.NOTHING_CHANGED
    cpu: list[TimedPair] = []
    while not trial.stopped:
        for at in order.sample((0, 1), 2):
            runs[at] = jobs.run(commands[at], trial.until_s)
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
