"""The pairs of a trial as they come in: when there are enough, and what was spent on them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import randbelow
from typing import Any

from redline.trials.decision import MOST_PAIRS, Decision, TrialVerdict, decide
from redline.trials.machine_load import MachineLoad
from redline.trials.trial_result import Stopped, TimedPair, TrialResult

PROCESS_STEPS = 30  # of each process, where whole processes are compared

Tell = Callable[[Decision], None]  # after every pair


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """How much may be spent on a trial, and what the programs may do."""

    pairs: int = MOST_PAIRS
    max_time_s: float = 1800.0
    steps: int = PROCESS_STEPS
    seed: int = field(default_factory=lambda: 1 + randbelow(1 << 30))  # of the random order within pairs
    allow_writes: bool = False  # to files of the user


class TrialPairs:
    """The pairs so far."""

    def __init__(self, options: TrialOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._load = MachineLoad()
        self._started_s = time.perf_counter()
        self.until_s = self._started_s + options.max_time_s
        self._cpu_s = 0.0
        self.pairs: list[TimedPair] = []
        self.stopped: Stopped | None = None

    def used_cpu(self, cpu_s: float) -> None:
        """Of our own: what else the machine did was done by others."""
        self._cpu_s += cpu_s

    def add(self, pair: TimedPair) -> bool:
        """Whether that was enough."""
        self.pairs.append(pair)
        decision = decided(self.pairs)
        if decision is not None:
            self._tell(decision)
        if decision is not None and decision.verdict is not TrialVerdict.UNDECIDED:
            self.stopped = Stopped.DECIDED
        elif len(self.pairs) >= self._options.pairs:
            self.stopped = Stopped.PAIRS_SPENT
        elif time.perf_counter() > self.until_s:
            self.stopped = Stopped.TIME_SPENT
        return self.stopped is not None

    def result(self, **known: Any) -> TrialResult:
        return TrialResult(
            stopped=self.stopped or Stopped.PAIRS_SPENT,
            decision=decided(self.pairs),
            pairs=tuple(self.pairs),
            wall_s=time.perf_counter() - self._started_s,
            others_share=self._load.of_others(self._cpu_s),
            seed=self._options.seed,
            **known,
        )


def decided(pairs: Sequence[TimedPair]) -> Decision | None:
    """None without a pair."""
    return decide([pair.before_s for pair in pairs], [pair.after_s for pair in pairs]) if pairs else None
