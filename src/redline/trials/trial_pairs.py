"""The pairs of a trial as they come in: when there are enough, and what was spent on them."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from secrets import randbelow
from typing import Any

from redline.trials.paired_sequence import LEAST_PAIRS, MOST_PAIRS, NEGLIGIBLE, Decision, TrialVerdict, decide
from redline.trials.trial_result import Stopped, TimedPair, TrialResult

PROCESS_STEPS = 30  # of each process, where whole processes are compared
Tell = Callable[[Decision], None]  # after every pair
BUSY = 0.10  # of the cores used by others: enough to be named
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # of /proc/stat: user, nice, system, irq, softirq, steal


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """How much may be spent on a trial, and what the programs may do."""

    pairs: int = MOST_PAIRS
    max_time_s: float = 1800.0
    steps: int = PROCESS_STEPS
    seed: int = field(default_factory=lambda: 1 + randbelow(1 << 30))  # of the random order within pairs
    allow_writes: bool = False  # to files of the user
    negligible: float = NEGLIGIBLE  # a change that is smaller for certain is none
    gains_only: bool = False  # it ends once nothing can be gained that is worth it
    unpromising_pairs: int | None = None  # pairs at most where the estimate is no such gain either; None for as many
    after_work: float = 1.0  # of a step with the change, in steps without it: a batch may be larger
    stall_s: float = inf  # without a step, after which a job hangs
    left_processes: int | None = None  # that a job may leave behind; None for any number


class TrialPairs:
    """The pairs so far."""

    def __init__(self, options: TrialOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._load = MachineLoad()
        self._started_s = time.perf_counter()
        self.until_s = self._started_s + options.max_time_s
        self.pairs: list[TimedPair] = []
        self.stopped: Stopped | None = None

    def add(self, pair: TimedPair) -> bool:
        """Whether that was enough."""
        work = self._options.after_work
        self.pairs.append(pair if work == 1 else TimedPair(before_s=pair.before_s, after_s=pair.after_s / work))
        decision = decided(self.pairs, self._options.negligible)
        if decision is not None:
            self._tell(decision)
        if decision is not None and decision.verdict is not TrialVerdict.UNDECIDED:
            self.stopped = Stopped.DECIDED
        elif decision is not None and self._options.gains_only and self._gains_nothing(decision):
            self.stopped = Stopped.NO_GAIN
        elif len(self.pairs) >= self._most_pairs(decision):
            self.stopped = Stopped.PAIRS_SPENT
        elif time.perf_counter() > self.until_s:
            self.stopped = Stopped.TIME_SPENT
        return self.stopped is not None

    def _most_pairs(self, decision: Decision | None) -> int:
        promises = decision is not None and decision.estimate.change <= -self._options.negligible
        few = self._options.unpromising_pairs
        return self._options.pairs if promises or few is None else min(few, self._options.pairs)

    def _gains_nothing(self, decision: Decision) -> bool:
        known = decision.estimate
        return known.pairs >= LEAST_PAIRS and known.low > -self._options.negligible

    def result(self, own_cpu_s: float | None, **known: Any) -> TrialResult:
        """With the CPU time of our own, where it is known: what else the machine did was done by others."""
        return TrialResult(
            stopped=self.stopped or Stopped.PAIRS_SPENT,
            decision=decided(self.pairs, self._options.negligible),
            pairs=tuple(self.pairs),
            wall_s=time.perf_counter() - self._started_s,
            others_share=None if own_cpu_s is None else self._load.of_others(own_cpu_s),
            seed=self._options.seed,
            negligible=self._options.negligible,
            **known,
        )


def decided(pairs: Sequence[TimedPair], negligible: float = NEGLIGIBLE) -> Decision | None:
    """None without a pair."""
    before, after = ([pair.before_s for pair in pairs], [pair.after_s for pair in pairs])
    return decide(before, after, negligible) if pairs else None


class MachineLoad:
    """How much of the machine others used while something was timed."""

    def __init__(self) -> None:
        self._busy_s = _busy_s()
        self._started_s = time.perf_counter()

    def of_others(self, own_cpu_s: float) -> float | None:
        """Their share of all cores; None where the system does not say."""
        if self._busy_s is None or (now_s := _busy_s()) is None:
            return None
        others_s = now_s - self._busy_s - own_cpu_s
        all_s = (time.perf_counter() - self._started_s) * (os.cpu_count() or 1)
        return min(max(others_s / all_s, 0.0), 1.0) if all_s > 0 else None


def _busy_s() -> float | None:
    try:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
        return sum(int(fields[at]) for at in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
