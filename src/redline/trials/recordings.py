"""What differs between two recordings of a job: the average step by account and by phase, exactly; and what else does.

Amounts are fractions of nanoseconds, so that differences of accounts add up to that of the step without rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from statistics import median

import numpy as np
import numpy.typing as npt

from redline.findings.finding import Finding, Findings
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.host_phases import PHASES, Phase
from redline.ledger.rank.phases import KINDS
from redline.trials.run_facts import NO_RUN, RunFacts
from redline.units import format_bytes

BETWEEN_PROCESSES = 0.24  # medians of one and the same program were seen to differ by up to this, on a quiet machine
LEAST_WORTH = Fraction(30, 100)  # of the step: less says nothing where recordings were not interleaved
SAME_WORK = 0.01  # known FLOPs of two steps that differ by less are those of the same work
SAME_COVERAGE = 0.05  # shares of the kernel time with known FLOPs that differ by less are alike
LEAST_STEPS = 3  # of each recording: fewer say nothing of how steps spread
DRAWS = 4000
CONFIDENCE = 0.95
_SEED = 20  # the same recordings get the same interval


class Judgement(StrEnum):
    """What two recordings say of the change between them."""

    FASTER = "faster"
    SLOWER = "slower"
    UNDECIDED = "undecided"  # too small for recordings that were not interleaved, or within the spread of their steps
    OTHER_WORK = "other work"  # known FLOPs per step differ: a longer step is not a slower one
    PREDICTED = "predicted"  # one of the two did not run: it is a plan
    ALTERED = "altered"  # one of the two is a what-if, and so is no measurement

    @property
    def of_measurements(self) -> bool:
        return self not in (Judgement.PREDICTED, Judgement.ALTERED)


@dataclass(frozen=True, kw_only=True)
class AmountChange:
    """One amount of the average step of a rank, in ns."""

    name: str
    before_ns: Fraction
    after_ns: Fraction

    @property
    def difference_ns(self) -> Fraction:
        return self.after_ns - self.before_ns


@dataclass(frozen=True, kw_only=True)
class CountedChange:
    """Calls of one kind: their number and time per step of a rank."""

    name: str
    detail: str  # shapes of an operator; ranks and bytes of a collective
    before_calls: Fraction
    after_calls: Fraction
    before_ns: Fraction
    after_ns: Fraction

    @property
    def difference_ns(self) -> Fraction:
        return self.after_ns - self.before_ns


@dataclass(frozen=True, kw_only=True)
class FindingChange:
    """A finding in both recordings, or in one; shares are of the step as the only fix."""

    code: str
    before: float | None  # None: it is not there
    after: float | None


@dataclass(frozen=True, kw_only=True)
class WorkChange:
    """Known FLOPs per step of a rank, and the share of the kernel time that they are known for."""

    before_flops: float
    after_flops: float
    before_known: float
    after_known: float

    @property
    def change(self) -> float:
        """As a share of the work before; 0 where that of either is unknown."""
        return self.after_flops / self.before_flops - 1 if self.before_flops and self.after_flops else 0.0

    @property
    def differs(self) -> bool:
        return abs(self.change) > SAME_WORK

    @property
    def covered_alike(self) -> bool:
        """If not, work may have moved to kernels whose FLOPs are unknown instead of changing."""
        return abs(self.after_known - self.before_known) <= SAME_COVERAGE


@dataclass(frozen=True, kw_only=True)
class MemoryChange:
    """A peak of the rank that has the highest, in bytes; None where a recording does not say."""

    name: str
    before_bytes: int | None
    after_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Context:
    """Something besides the change that differs between the recordings."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class RecordingDifference:
    """Two recordings of a job, the one held against the other."""

    step: AmountChange
    medians_ns: tuple[float, float]  # of all steps of all ranks
    steps: tuple[int, int]  # that were recorded, over all ranks
    interval: RatioInterval | None  # of the change of the step as a share of it; None with less than three steps
    judgement: Judgement
    predicted: tuple[bool, bool]  # which of them are plans
    altered: tuple[str, str]  # the what-ifs that each was altered by; "" where it was not
    work: WorkChange
    accounts: tuple[AmountChange, ...]  # all of them; they add up to the step
    phases: tuple[AmountChange, ...]  # phase and kind; they add up to the step too; none where a recording has none
    ranks: tuple[AmountChange, ...]  # the average step of each rank that both have
    operators: tuple[CountedChange, ...]  # the largest difference first
    collectives: tuple[CountedChange, ...]
    memory: tuple[MemoryChange, ...]  # peaks that at least one recording has
    findings: tuple[FindingChange, ...]
    context: tuple[Context, ...]

    @property
    def change(self) -> float:
        """Of the step, as a share of the one before; negative where it got shorter."""
        return float(self.step.difference_ns / self.step.before_ns) if self.step.before_ns else 0.0


def difference_of(
    before: Diagnosis,
    after: Diagnosis,
    findings: tuple[Findings, Findings] | None = None,
    runs: tuple[RunFacts, RunFacts] = (NO_RUN, NO_RUN),
) -> RecordingDifference:
    """`runs` are what the records of the two runs say beside their traces."""
    accounts = _accounts(before, after)
    step = AmountChange(
        name="step",
        before_ns=sum((row.before_ns for row in accounts), Fraction()),
        after_ns=sum((row.after_ns for row in accounts), Fraction()),
    )
    interval = ratio_of_steps(_step_lengths(before), _step_lengths(after))
    work = WorkChange(
        before_flops=_flops(before),
        after_flops=_flops(after),
        before_known=_known_share(before),
        after_known=_known_share(after),
    )
    return RecordingDifference(
        step=step,
        medians_ns=(_median_ns(before), _median_ns(after)),
        steps=(before.rank_steps, after.rank_steps),
        interval=interval,
        judgement=_judged((before, after), work, step, interval),
        predicted=(before.predicted, after.predicted),
        altered=(before.altered, after.altered),
        work=work,
        accounts=accounts,
        phases=_phases(before, after),
        ranks=_ranks(before, after),
        operators=_operators(before, after),
        collectives=_collectives(before, after),
        memory=_memory(*runs),
        findings=() if findings is None else tuple(_findings(*findings)),
        context=tuple(_context((before, after), runs)),
    )


def _judged(
    sides: tuple[Diagnosis, Diagnosis], work: WorkChange, step: AmountChange, interval: RatioInterval | None
) -> Judgement:
    if any(side.altered for side in sides):
        return Judgement.ALTERED
    if any(side.predicted for side in sides):
        return Judgement.PREDICTED
    if work.differs:
        return Judgement.OTHER_WORK
    if interval is None or not step.before_ns or abs(step.difference_ns) < LEAST_WORTH * step.before_ns:
        return Judgement.UNDECIDED
    if interval.high < 0:
        return Judgement.FASTER
    return Judgement.SLOWER if interval.low > 0 else Judgement.UNDECIDED


# --- the average step -------------------------------------------------------------------------------------------------


def _per_step(total: int, diagnosis: Diagnosis) -> Fraction:
    return Fraction(total, max(diagnosis.rank_steps, 1))


def _accounts(before: Diagnosis, after: Diagnosis) -> tuple[AmountChange, ...]:
    amounts = zip(ACCOUNTS, before.in_steps.tolist(), after.in_steps.tolist(), strict=True)
    return tuple(
        AmountChange(name=str(account), before_ns=_per_step(first, before), after_ns=_per_step(second, after))
        for account, first, second in amounts
    )


def _phases(before: Diagnosis, after: Diagnosis) -> tuple[AmountChange, ...]:
    sums = [_phase_sums(diagnosis) for diagnosis in (before, after)]
    if not all(sums):
        return ()
    cells = [f"{phase} {kind}" for phase in PHASES for kind in KINDS]
    return tuple(
        AmountChange(name=name, before_ns=_per_step(first, before), after_ns=_per_step(second, after))
        for name, first, second in zip(cells, *sums, strict=True)
    )


_FORWARD = range(PHASES.index(Phase.FORWARD) * len(KINDS), (PHASES.index(Phase.FORWARD) + 1) * len(KINDS))


def _phase_sums(diagnosis: Diagnosis) -> list[int]:
    """Over all steps of all ranks; none where one does not tell them."""
    if not all(rank.phases for rank in diagnosis.ranks):
        return []
    totals: list[int] = np.array([rank.phases for rank in diagnosis.ranks], np.int64).sum(axis=0).tolist()
    if diagnosis.predicted and not any(totals[cell] for cell in _FORWARD):
        return []  # the plan of a module: its passes are not told apart
    return totals


def _step_lengths(diagnosis: Diagnosis) -> list[list[int]]:
    """Of each rank."""
    return [(rank.ledger.end_ns - rank.ledger.start_ns).tolist() for rank in diagnosis.ranks]


def _median_ns(diagnosis: Diagnosis) -> float:
    every = [length for steps in _step_lengths(diagnosis) for length in steps]
    return median(every) if every else 0.0


def _ranks(before: Diagnosis, after: Diagnosis) -> tuple[AmountChange, ...]:
    averages = []
    for diagnosis in (before, after):
        lengths = zip(diagnosis.ranks, _step_lengths(diagnosis), strict=True)
        averages.append({rank.origin.rank: Fraction(sum(steps), len(steps)) for rank, steps in lengths if steps})
    return tuple(
        AmountChange(name=str(rank), before_ns=averages[0][rank], after_ns=averages[1][rank])
        for rank in sorted(averages[0].keys() & averages[1].keys())
    )


# --- operators and collectives ----------------------------------------------------------------------------------------

_Key = tuple[str, str]


_Totals = Mapping[_Key, tuple[int, int]]  # calls and time


def _operators(before: Diagnosis, after: Diagnosis) -> tuple[CountedChange, ...]:
    def totals(diagnosis: Diagnosis) -> _Totals:
        return _summed(((row.operator or row.kernel, row.shapes), row.calls, row.time_ns) for row in diagnosis.kernels)

    return _counted(totals(before), totals(after), before, after)


def _collectives(before: Diagnosis, after: Diagnosis) -> tuple[CountedChange, ...]:
    def totals(diagnosis: Diagnosis) -> _Totals:
        return _summed(((row.collective, _size(row)), row.calls, row.residence_ns) for row in diagnosis.collectives)

    return _counted(totals(before), totals(after), before, after)


def _size(row: CollectiveRow) -> str:
    """Without bytes where the trace does not tell them."""
    size = f"{format_bytes(row.payload_bytes)}, " if row.payload_bytes else ""
    return f"{size}{row.group_size} ranks"


def _summed(rows: Iterable[tuple[_Key, int, int]]) -> _Totals:
    sums: dict[_Key, tuple[int, int]] = {}
    for key, calls, time_ns in rows:
        known = sums.get(key, (0, 0))
        sums[key] = (known[0] + calls, known[1] + time_ns)
    return sums


def _counted(first: _Totals, second: _Totals, before: Diagnosis, after: Diagnosis) -> tuple[CountedChange, ...]:
    nothing = (0, 0)
    rows = [
        CountedChange(
            name=key[0],
            detail=key[1],
            before_calls=_per_step(first.get(key, nothing)[0], before),
            after_calls=_per_step(second.get(key, nothing)[0], after),
            before_ns=_per_step(first.get(key, nothing)[1], before),
            after_ns=_per_step(second.get(key, nothing)[1], after),
        )
        for key in first.keys() | second.keys()
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name, row.detail)))


# --- findings and context ---------------------------------------------------------------------------------------------


def _findings(before: Findings, after: Findings) -> Iterator[FindingChange]:
    """The largest of either first."""
    shares = [_shares(findings.findings) for findings in (before, after)]
    rows = [
        FindingChange(code=code, before=shares[0].get(code), after=shares[1].get(code))
        for code in shares[0].keys() | shares[1].keys()
    ]
    yield from sorted(rows, key=lambda row: (-max(row.before or 0.0, row.after or 0.0), row.code))


def _shares(findings: Sequence[Finding]) -> dict[str, float]:
    return {finding.code: finding.alone_share for finding in findings if not finding.is_void}


def _context(diagnoses: tuple[Diagnosis, Diagnosis], runs: tuple[RunFacts, RunFacts]) -> Iterator[Context]:
    """What a reader asks first: was anything else changed? Of a plan much is unknown, which is no difference."""
    told = [_told(diagnosis) for diagnosis in diagnoses]
    if all(run.context for run in runs):
        told = [{**facts, **run.context} for facts, run in zip(told, runs, strict=True)]
    is_plan = any(diagnosis.predicted for diagnosis in diagnoses)
    for what in dict.fromkeys([*told[0], *told[1]]):
        first, second = (facts.get(what, "") for facts in told)
        if first != second and not (is_plan and not (first and second)):
            yield Context(what=what, before=first, after=second)


def _told(diagnosis: Diagnosis) -> dict[str, str]:
    """By what is told, in the words of `report.compare.sentences`."""
    ranks = diagnosis.ranks
    versions = {name: version for rank in ranks for name, version in rank.origin.versions.items()}
    return {
        "ranks": str(len(ranks)),
        "world size": str(diagnosis.world_size or ""),
        "device": _all(rank.facts.device_name or rank.facts.device for rank in ranks),
        "machine": _all(rank.facts.machine for rank in ranks),
        "hosts": _all(rank.origin.host for rank in ranks),
        "backend": _all(rank.origin.backend for rank in ranks),
        "recorded": _all(", ".join(sorted(rank.origin.recorded)) for rank in ranks),
        "steps by": _all(rank.origin.step_anchor for rank in ranks),
        **{f"version of {name.removesuffix('_version')}": version for name, version in sorted(versions.items())},
        "FLOPs per step": f"{_flops(diagnosis):.3g}" if _flops(diagnosis) else "",
    }


def _all(words: Iterable[str]) -> str:
    return "; ".join(sorted({word for word in words if word}))


# --- work and memory --------------------------------------------------------------------------------------------------


def _flops(diagnosis: Diagnosis) -> float:
    """Known work: where it differs, the model or its batches do, or kernels of unknown work took some over."""
    return sum(part.flops for rank in diagnosis.ranks for part in rank.arithmetic) / max(diagnosis.rank_steps, 1)


def _known_share(diagnosis: Diagnosis) -> float:
    facts = [rank.facts for rank in diagnosis.ranks]
    return sum(of_rank.known_work_ns for of_rank in facts) / max(sum(of_rank.kernel_ns for of_rank in facts), 1)


def _memory(before: RunFacts, after: RunFacts) -> tuple[MemoryChange, ...]:
    names = dict.fromkeys([*before.peak_bytes, *after.peak_bytes])
    return tuple(
        MemoryChange(name=name, before_bytes=before.peak_bytes.get(name), after_bytes=after.peak_bytes.get(name))
        for name in names
    )


@dataclass(frozen=True)
class RatioInterval:
    """Of the change of the step, as a share of the one before."""

    low: float
    high: float


def ratio_of_steps(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> RatioInterval | None:
    """By drawing whole steps again and again: ranks of one step wait for each other, and are drawn together.

    None where a recording has too few steps. It does not know how much two processes of one program differ.
    """
    steps = [_steps(lengths) for lengths in (before, after)]
    if min(map(len, steps)) < LEAST_STEPS or not all(lengths.all() for lengths in steps):
        return None
    drawn = np.random.default_rng(_SEED)
    means = [lengths[drawn.integers(0, len(lengths), (DRAWS, len(lengths)))].mean(axis=1) for lengths in steps]
    changes = means[1] / means[0] - 1
    low, high = np.quantile(changes, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
    return RatioInterval(low, high)


def _steps(lengths: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """The average over ranks of each step that all of them have."""
    common = min(map(len, lengths), default=0)
    return np.array([steps[:common] for steps in lengths], np.float64).mean(axis=0) if common else np.empty(0)
