"""The ladder as numbers: what each rung gained, where the job is with it, and whether the rungs add up to the whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, expm1, inf, isfinite, log1p, prod, sqrt
from statistics import median

from redline.numerics import Numerics
from redline.trials.paired_sequence import TrialVerdict
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_result import Stopped, Timed, TrialResult
from redline.tuning.measurements import work_of
from redline.tuning.tune_result import Objective, Rung, TuneResult

_NOTABLE = 0.01  # of the start: rungs and whole that are closer agree
_DRIFT = 0.05  # of the start, between the beginning of the search and its end
_LEAST_LOG = -8.0  # bounds beyond are none


class LadderTime(StrEnum):
    """What the times of a ladder are of."""

    STEP = "step"
    BATCH = "batch of the start"  # where steps have several of them
    COMMAND = "whole command"


@dataclass(frozen=True, kw_only=True)
class MeasuredChange:
    """As a share of what was before; negative for less. Bounds are the 95 % interval, or the range of a few runs."""

    change: float
    low: float  # -1 where there is no bound
    high: float  # inf where there is none


@dataclass(frozen=True, kw_only=True)
class LadderRow:
    """The start, a rung on top of all before it, or the whole."""

    number: int  # 0 is the start
    lever: str = ""
    finding: str = ""  # that suggested it
    replaced: str = ""
    change: MeasuredChange | None = None  # None where it was not measured
    amount: float  # seconds of a step, or bytes: what is to become less
    step_s: float | None  # None where it is not known
    peak_bytes: int  # 0 where it is not known
    numbers: Numerics | None = None
    agreed: bool = False  # the user has agreed to other numbers

    def bounds(self, before: float) -> tuple[float, float]:
        """Of the amount, by the interval of this change of what was before; the amount itself without one."""
        if self.change is None:
            return self.amount, self.amount
        return before * (1 + self.change.low), before * (1 + self.change.high)


@dataclass(frozen=True, kw_only=True)
class LadderRows:
    """The ladder of one search."""

    start: LadderRow
    rungs: tuple[LadderRow, ...]
    whole: LadderRow | None  # against the start, measured afresh
    promised: MeasuredChange | None  # by the rungs one by one; None where one was not measured
    disagrees: bool  # the whole is not what the rungs promise
    drift: float  # of the start from the beginning of the search to its end; 0 where it is small
    is_proven: bool  # the whole is less than the start, for certain
    timed: LadderTime

    @property
    def all(self) -> tuple[LadderRow, ...]:
        return (self.start, *self.rungs, *((self.whole,) if self.whole else ()))


def ladder_rows(result: TuneResult) -> LadderRows:
    start = _start(result)
    rungs = tuple(_rungs(result, start))
    whole = _whole(result, start)
    promised = _together([row.change for row in rungs])
    return LadderRows(
        start=start,
        rungs=rungs,
        whole=whole,
        promised=promised,
        disagrees=_disagree(promised, whole.change if whole else None),
        drift=_drift(result, start),
        is_proven=whole is not None and _is_proven(result),
        timed=_timed(result),
    )


def _is_proven(result: TuneResult) -> bool:
    ladder = result.ladder
    if result.objective is Objective.MEMORY:
        return ladder.whole_memory is not None and ladder.whole_memory.is_less
    decision = ladder.whole.decision if ladder.whole else None
    return decision is not None and decision.verdict is TrialVerdict.FASTER


def _timed(result: TuneResult) -> LadderTime:
    whole = result.ladder.whole
    if result.objective is Objective.TIME and whole is not None and whole.timed is Timed.WHOLE_PROCESS:
        return LadderTime.COMMAND
    return LadderTime.BATCH if work_of(result.ladder.levers) > 1 else LadderTime.STEP


def measured(trial: TrialResult | None) -> MeasuredChange | None:
    """Of the time; None where a trial decides nothing."""
    if trial is None or trial.decision is None or trial.stopped in (Stopped.FAILED, Stopped.NOTHING_CHANGED):
        return None
    known = trial.decision.estimate
    return MeasuredChange(change=known.change, low=max(known.low, -1.0), high=known.high)


def measured_memory(memory: MemoryTrial | None) -> MeasuredChange | None:
    """Of the peak; the range over all runs of both."""
    if memory is None or not memory.is_known:
        return None
    return MeasuredChange(
        change=memory.change,
        low=min(memory.after_bytes) / max(memory.before_bytes) - 1,
        high=max(memory.after_bytes) / min(memory.before_bytes) - 1,
    )


# --- rows -------------------------------------------------------------------------------------------------------------


def _start(result: TuneResult) -> LadderRow:
    """As it was measured beside the whole, where it was: then all figures are of the same hour."""
    ladder = result.ladder
    step_s, peak_bytes = result.start_step_s or None, result.start_peak_bytes
    if ladder.whole and ladder.whole.pairs:
        step_s = median(pair.before_s for pair in ladder.whole.pairs)
    if ladder.whole_memory and ladder.whole_memory.is_known:
        peak_bytes = round(median(ladder.whole_memory.before_bytes))
        step_s = _median(ladder.whole_memory.before_step_s) or step_s
    amount = peak_bytes if result.objective is Objective.MEMORY else step_s
    return LadderRow(number=0, amount=amount or 0.0, step_s=step_s, peak_bytes=peak_bytes)


def _rungs(result: TuneResult, start: LadderRow) -> Iterator[LadderRow]:
    before = start.amount
    for number, rung in enumerate(result.ladder.rungs, 1):
        by_memory = result.objective is Objective.MEMORY
        change = measured_memory(rung.memory) if by_memory else measured(rung.trial)
        before *= 1 + change.change if change else 1.0
        yield LadderRow(
            number=number,
            lever=rung.name,
            finding=" + ".join(dict.fromkeys(one.finding for one in rung.candidates if one.finding)),
            replaced=rung.replaced,
            change=change,
            amount=before,
            step_s=_median(rung.memory.after_step_s if rung.memory else ()) if by_memory else before,
            peak_bytes=round(before) if by_memory else rung.peak_bytes,
            numbers=rung.numbers.verdict if rung.numbers else None,
            agreed=rung.numbers is None,
        )


def _whole(result: TuneResult, start: LadderRow) -> LadderRow | None:
    ladder = result.ladder
    if not ladder.rungs:
        return None
    last = ladder.rungs[-1]
    if result.objective is Objective.MEMORY:
        memory = ladder.whole_memory
        change = measured_memory(memory)
        if memory is None or change is None:
            return None
        peak = round(median(memory.after_bytes))
        return _whole_row(last, change, peak, _median(memory.after_step_s), peak)
    change = measured(ladder.whole)
    if ladder.whole is None or change is None:
        return None
    step_s = median(pair.after_s for pair in ladder.whole.pairs) if ladder.whole.pairs else start.amount
    return _whole_row(last, change, step_s, step_s, ladder.whole.after_peak_bytes or last.peak_bytes)


def _whole_row(last: Rung, change: MeasuredChange, amount: float, step_s: float | None, peak_bytes: int) -> LadderRow:
    return LadderRow(
        number=0,
        change=change,
        amount=amount,
        step_s=step_s,
        peak_bytes=peak_bytes,
        numbers=last.numbers.verdict if last.numbers else None,
        agreed=last.numbers is None,
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


# --- do they add up ---------------------------------------------------------------------------------------------------


def _together(changes: Sequence[MeasuredChange | None]) -> MeasuredChange | None:
    """The product; its bounds as those of independent errors, in logarithms."""
    known = [change for change in changes if change is not None]
    if not known or len(known) < len(changes):
        return None
    middle = prod(1 + change.change for change in known)
    below = sqrt(sum((log1p(change.change) - _log(change.low)) ** 2 for change in known))
    above = sqrt(sum((_log(change.high) - log1p(change.change)) ** 2 for change in known))
    return MeasuredChange(
        change=middle - 1,
        low=middle * exp(-below) - 1 if isfinite(below) else -1.0,
        high=middle * exp(above) - 1 if isfinite(above) else inf,
    )


def _log(bound: float) -> float:
    return log1p(bound) if bound > expm1(_LEAST_LOG) else -inf


def _disagree(promised: MeasuredChange | None, whole: MeasuredChange | None) -> bool:
    """Whether the intervals have nothing in common."""
    if promised is None or whole is None or abs(promised.change - whole.change) < _NOTABLE:
        return False
    return promised.high < whole.low or whole.high < promised.low


def _drift(result: TuneResult, start: LadderRow) -> float:
    first = result.start_peak_bytes if result.objective is Objective.MEMORY else result.start_step_s
    if not first or not start.amount or not result.ladder.rungs or _timed(result) is LadderTime.COMMAND:
        return 0.0
    drift = start.amount / first - 1
    return drift if abs(drift) > _DRIFT else 0.0
