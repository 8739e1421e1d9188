"""Times programs against the same start on fresh pairs of processes, taking turns so that all see the same machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from redline.capture.supervisor.trial_command import TrialCommand
from redline.trials.paired_sequence import estimate
from redline.trials.trial_jobs import try_commands
from redline.trials.trial_pairs import TrialOptions
from redline.trials.trial_result import TimedPair

PAIRS_PER_TURN = 6


@dataclass(frozen=True, kw_only=True)
class FreshChange:
    """The change of the time of a step; negative where it got shorter."""

    change: float
    low: float
    high: float
    pairs: int
    start_ms: float  # medians
    step_ms: float


def time_in_turns(
    start: TrialCommand, programs: Mapping[str, TrialCommand], *, turns: int, steps: int, seed: int
) -> dict[str, FreshChange]:
    """Each program against the start, in as many turns, over all of their pairs."""
    pairs: dict[str, list[TimedPair]] = {name: [] for name in programs}
    for turn in range(turns):
        for number, (name, program) in enumerate(programs.items()):
            options = TrialOptions(pairs=PAIRS_PER_TURN, steps=steps, seed=seed + 101 * turn + number)
            pairs[name].extend(try_commands(start, program, options).pairs)
    return {name: change_of(timed) for name, timed in pairs.items() if timed}


def change_of(pairs: Sequence[TimedPair]) -> FreshChange:
    """The interval may be looked at any time, so pairs of several trials are one longer sequence."""
    before, after = [pair.before_s for pair in pairs], [pair.after_s for pair in pairs]
    known = estimate(before, after)
    return FreshChange(
        change=known.change,
        low=known.low,
        high=known.high,
        pairs=known.pairs,
        start_ms=1e3 * median(before),
        step_ms=1e3 * median(after),
    )
