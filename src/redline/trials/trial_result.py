"""What a trial of a change gave: its pairs, what they say, and what a reader has to know beside it."""

from dataclasses import dataclass
from enum import StrEnum

from redline.trials.paired_sequence import NEGLIGIBLE, Decision


@dataclass(frozen=True, kw_only=True)
class TimedPair:
    """Seconds without the change and with it, of two neighbours in time."""

    before_s: float
    after_s: float


class Timed(StrEnum):
    """What was timed."""

    STEP_IN_BLOCKS = "steps, in blocks of one process"
    STEP_OF_PROCESS = "steps, in processes"
    WHOLE_PROCESS = "whole processes"
    CALLS = "calls of functions"


class Stopped(StrEnum):
    """Why no more pairs were timed."""

    DECIDED = "decided"
    PAIRS_SPENT = "pairs spent"
    TIME_SPENT = "time spent"
    NO_GAIN = "no gain possible"  # that is worth it, where only that is looked for
    NOTHING_CHANGED = "nothing changed"  # the lever did not take
    TOO_SHORT = "too few steps"  # of the job, for blocks
    FAILED = "failed"  # the job did, with the change


@dataclass(frozen=True, kw_only=True)
class LeverOutcome:
    """What a lever did to the job."""

    lever: str
    took: bool
    what: str


def changed_nothing(outcomes: tuple[LeverOutcome, ...]) -> bool:
    return bool(outcomes) and not any(outcome.took for outcome in outcomes)


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """A change that was tried."""

    before: str  # commands as they are typed
    after: str
    timed: Timed
    stopped: Stopped
    decision: Decision | None  # None without a pair
    pairs: tuple[TimedPair, ...]
    cpu: Decision | None = None  # by the CPU time of whole processes
    block_steps: int = 0  # that count: of a pair each way, or of a process
    steps: int = 0  # of the job that all of it took
    processes: int = 0
    ranks: int = 1
    wall_s: float = 0.0
    others_share: float | None = None  # of the machine's cores, used by others
    seed: int = 0
    negligible: float = NEGLIGIBLE  # a change that is smaller for certain is none
    levers: tuple[LeverOutcome, ...] = ()
    error: str = ""  # why it failed
    before_peak_bytes: int = 0  # of the memory of a process; 0 where both ways share one
    after_peak_bytes: int = 0
