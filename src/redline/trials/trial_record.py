"""A trial as it is kept in a file, to be shown again or gone on from; compare-programs.md describes it."""

from dataclasses import asdict, dataclass, fields
from math import inf, isfinite, nan
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from redline.artifacts import Envelope
from redline.artifacts.file_kind import FileKind
from redline.ledger.rank.digest_limits import Count
from redline.numerics import Numerics
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.differences import TensorDifference
from redline.trials.numbers.judgement import CurveDifference, NumbersJudgement, TensorDeviation
from redline.trials.numbers.run_numbers import TensorKey
from redline.trials.paired_sequence import Decision, PairedEstimate, decide
from redline.trials.trial_result import TimedPair, TrialResult

KIND = "trial"
SCHEMA_VERSION = 1
_Seconds = Annotated[float, Meta(ge=1e-12, le=1e12)]


@dataclass(frozen=True, kw_only=True)
class _Change:
    """What pairs say, as it is written."""

    change: float
    low: float | None  # None where there is no bound yet, as in the next
    high: float | None
    pairs: Count


@dataclass(frozen=True, kw_only=True)
class _Time(TrialResult):
    """What was timed; what its pairs say is not read, but worked out again."""

    decision: None = None
    cpu: None = None
    pairs: Annotated[tuple[tuple[_Seconds, _Seconds], ...], Meta(max_length=1_000)]  # type: ignore[assignment]
    cpu_time: _Change | None
    peak_bytes: tuple[Count, Count] = (0, 0)


@dataclass(frozen=True, kw_only=True)
class _First:
    """The first tensor that deviates, as it is written."""

    step: Count
    kind: str
    name: str
    score: float | None
    gain: float | None
    cosine: float | None
    deviating: Count
    compared: Count


@dataclass(frozen=True, kw_only=True)
class _Numbers:
    """The part of a record that tells of numbers."""

    claimed: Numerics
    verdict: Numerics
    score: float | None
    steps: Count
    by_optimizer: bool
    compared: Count
    first: _First | None
    loss_curve: float | None
    gradient_norm_curve: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """All that the file of a trial says."""

    time: _Time | None
    numbers: _Numbers | None


TRIAL = FileKind(
    "a trial that Redline has kept",
    TrialRecord,
    "measure it again",
    most_bytes=8 << 20,
    envelope=(KIND, SCHEMA_VERSION),
)


def to_record(trial: TrialResult | None, numbers: NumbersResult | None) -> dict[str, Any]:
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline compare", synthetic=False)
    return {
        **envelope.to_dict(),
        "time": _time(trial) if trial else None,
        "numbers": _numbers(numbers) if numbers else None,
    }


def read_trial(path: Path) -> tuple[TrialResult | None, NumbersResult | None]:
    """Raises InputError where the file is no trial."""
    return trial_of(TRIAL.read(path))


def trial_of(record: TrialRecord) -> tuple[TrialResult | None, NumbersResult | None]:
    timed, numbers = record.time, record.numbers
    return _time_of(timed) if timed else None, _numbers_of(numbers) if numbers else None


def _time(trial: TrialResult) -> dict[str, Any]:
    return {
        "before": trial.before,
        "after": trial.after,
        "verdict": None if trial.decision is None else str(trial.decision.verdict),
        "stopped": str(trial.stopped),
        "wall_time": _decision(trial.decision),
        "cpu_time": _decision(trial.cpu),
        "timed": str(trial.timed),
        "block_steps": trial.block_steps,
        "steps": trial.steps,
        "processes": trial.processes,
        "ranks": trial.ranks,
        "wall_s": trial.wall_s,
        "others_share": trial.others_share,
        "seed": trial.seed,
        "negligible": trial.negligible,
        "levers": [asdict(outcome) for outcome in trial.levers],
        "error": trial.error,
        "peak_bytes": [trial.before_peak_bytes, trial.after_peak_bytes],
        "pairs": [[pair.before_s, pair.after_s] for pair in trial.pairs],
    }


def _time_of(record: _Time) -> TrialResult:
    pairs = tuple(TimedPair(before_s=before, after_s=after) for before, after in record.pairs)
    known = {field.name: getattr(record, field.name) for field in fields(TrialResult)}
    worked_out = {
        "pairs": pairs,
        "decision": _decided(pairs, record.negligible),
        "cpu": _cpu_decision(record.cpu_time, record.negligible),
    }
    before_bytes, after_bytes = record.peak_bytes
    return TrialResult(**known | worked_out | {"before_peak_bytes": before_bytes, "after_peak_bytes": after_bytes})


def _decided(pairs: tuple[TimedPair, ...], negligible: float) -> Decision | None:
    if not pairs:
        return None
    return decide([pair.before_s for pair in pairs], [pair.after_s for pair in pairs], negligible)


def _cpu_decision(record: _Change | None, negligible: float) -> Decision | None:
    """Its pairs are not kept."""
    if record is None:
        return None
    known = PairedEstimate(
        change=record.change,
        low=-1.0 if record.low is None else record.low,
        high=inf if record.high is None else record.high,
        pairs=record.pairs,
    )
    return Decision.of(known, negligible)


def _numbers(numbers: NumbersResult) -> dict[str, Any]:
    first = numbers.first
    judged = numbers.structure or numbers.precision
    return {
        "holds": numbers.holds,
        "claimed": str(numbers.claimed),
        "verdict": str(numbers.verdict),
        "score": _finite_or_none(numbers.score),
        "steps": numbers.steps,
        "by_optimizer": numbers.by_optimizer,
        "compared": judged.compared if judged else 0,
        "first": None
        if first is None
        else {
            "step": first.key.step + 1,
            "kind": first.key.kind,
            "name": first.key.name,
            "score": _finite_or_none(first.score),
            "gain": _finite_or_none(first.difference.gain),
            "cosine": _finite_or_none(first.difference.cosine),
            "deviating": first.deviating,
            "compared": first.compared,
        },
        "loss_curve": _finite_or_none(numbers.curves.loss),
        "gradient_norm_curve": _finite_or_none(numbers.curves.gradient_norm),
        "notes": list(numbers.notes),
    }


def _numbers_of(record: _Numbers) -> NumbersResult:
    """With what is shown of it: single tensors are not kept but for the first that deviates."""
    curves = CurveDifference(loss=_or_nan(record.loss_curve), gradient_norm=_or_nan(record.gradient_norm_curve))
    first = _first_of(record.first) if record.first else None
    judged = NumbersJudgement(
        holds=first is None,
        same_bits=record.verdict is Numerics.BITWISE,
        score=_or_inf(record.score),
        worst=None,
        first=first,
        deviating=first.deviating if first else 0,
        compared=record.compared,
        kinds=(),
        skipped=(),
        only_reference=(),
        only_candidate=(),
        names_match=True,
        curves=curves,
    )
    return NumbersResult(
        claimed=record.claimed,
        verdict=record.verdict,
        structure=judged,
        precision=None,
        curves=curves,
        steps=record.steps,
        by_optimizer=record.by_optimizer,
        notes=record.notes,
    )


def _first_of(record: _First) -> TensorDeviation:
    return TensorDeviation(
        key=TensorKey(step=record.step - 1, kind=record.kind, name=record.name),
        score=_or_inf(record.score),
        difference=TensorDifference(error=nan, norm=nan, gain=_or_nan(record.gain), cosine=_or_nan(record.cosine)),
        deviating=record.deviating,
        compared=record.compared,
    )


def _decision(decision: Decision | None) -> dict[str, float | int | None] | None:
    if decision is None:
        return None
    known = decision.estimate
    return {"change": known.change, "low": _bound(known.low), "high": _bound(known.high), "pairs": known.pairs}


def _bound(bound: float) -> float | None:
    """None where there is no bound yet."""
    return bound if -1 < bound < inf else None


def _finite_or_none(value: float) -> float | None:
    return value if isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


def _or_inf(value: float | None) -> float:
    return inf if value is None else value
