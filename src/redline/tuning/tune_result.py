"""What a search for better settings gave: the rungs that were kept, what was rejected and why, and the whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_result import TrialResult
from redline.tuning.candidates import LeverCandidate
from redline.tuning.script_diff import ScriptDiff


class Objective(StrEnum):
    """What is to become less."""

    TIME = "time"
    MEMORY = "memory"


class Rejection(StrEnum):
    """Why a lever was not kept."""

    NOTHING_CHANGED = "nothing changed"
    NO_GAIN = "no gain"
    SLOWER = "slower"
    UNDECIDED = "undecided"
    FAILED = "failed"  # the job did: it crashed, hung, ran out of memory, or left processes behind
    WRONG_NUMBERS = "wrong numbers"
    UNCHECKED_NUMBERS = "numbers not proven"
    MORE_MEMORY = "more memory"
    CONFLICT = "conflict"
    NO_CONSENT = "no consent"
    NO_TIME = "no time"  # left for a trial


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A lever that was kept, or several that are proven together alone."""

    candidate: LeverCandidate
    trial: TrialResult | None  # on top of the rungs before; None where memory was the objective
    numbers: NumbersResult | None  # of all rungs so far against the start; None where the user agreed to others
    peak_bytes: int  # of a process with all rungs so far; 0 where it is not known
    memory: MemoryTrial | None = None  # where that was the objective
    replaced: str = ""  # the lever whose place it took
    alone: TrialResult | None = None  # without the rungs before, where it was tried so
    others: tuple[LeverCandidate, ...] = ()  # that were tried and kept with it, as each was undecided by itself

    @property
    def candidates(self) -> tuple[LeverCandidate, ...]:
        return (self.candidate, *self.others)

    @property
    def name(self) -> str:
        """As a person writes it."""
        return " + ".join(candidate.name for candidate in self.candidates)


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A lever that was not kept, with what shows it."""

    candidate: LeverCandidate
    why: Rejection
    kept: tuple[str, ...] = ()  # the rungs that it was tried on
    trial: TrialResult | None = None
    numbers: NumbersResult | None = None
    memory: MemoryTrial | None = None
    text: str = ""  # an error, or the lever that it is in conflict with


def kept_candidates(rungs: Sequence[Rung]) -> list[LeverCandidate]:
    """Of all rungs, but for those whose place another one took."""
    replaced = {rung.replaced for rung in rungs}
    return [candidate for rung in rungs for candidate in rung.candidates if candidate.name not in replaced]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The outcome of the search."""

    rungs: tuple[Rung, ...]
    rejected: tuple[Rejected, ...]
    whole: TrialResult | None  # all rungs against the start, on pairs of their own; None without a rung
    whole_memory: MemoryTrial | None = None

    @property
    def levers(self) -> tuple[str, ...]:
        return tuple(candidate.name for candidate in kept_candidates(self.rungs))


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    """A search with what a user has to know of it."""

    command: str
    objective: Objective
    ladder: Ladder
    start_step_s: float
    start_peak_bytes: int
    spent_s: float
    budget_s: float
    folder: Path
    memory_limit_bytes: int = 0
    limiting_before: str = ""  # the verdict of the diagnosis, in English
    limiting_now: str = ""
    written: tuple[str, ...] = ()  # files that hold it
    diff: ScriptDiff | None = None  # what does the same in the user's own files; None without a rung
