"""How much memory a job needs at its peak, with and without a change, in whole processes."""

from dataclasses import dataclass
from random import Random
from statistics import median

from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError
from redline.trials.trial_jobs import TrialJobs
from redline.trials.trial_pairs import TrialOptions, TrialPairs

RUNS = 3  # of each: peaks of the same program hardly differ
_NEGLIGIBLE = 0.01


@dataclass(frozen=True, kw_only=True)
class MemoryTrial:
    """Of the rank that needs most, in each run."""

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
