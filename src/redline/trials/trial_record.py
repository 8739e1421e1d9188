"""A trial as it is kept in a file, to be shown again or gone on from; compare-programs.md describes it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

from redline.artifacts import Envelope, check_envelope, read_whole
from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.decision import NEGLIGIBLE, Decision, decide
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.differences import TensorDifference
from redline.trials.numbers.judgement import CurveDifference, NumbersJudgement, TensorDeviation
from redline.trials.numbers.run_numbers import TensorKey
from redline.trials.paired_sequence import PairedEstimate
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TimedPair, TrialResult

KIND = "trial"
SCHEMA_VERSION = 1
_MOST_BYTES = 64 << 20


def to_record(trial: TrialResult | None, numbers: NumbersResult | None) -> dict[str, Any]:
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline compare", synthetic=False)
    return {
        **envelope.to_dict(),
        "time": _time(trial) if trial else None,
        "numbers": _numbers(numbers) if numbers else None,
    }


def read_trial(path: Path) -> tuple[TrialResult | None, NumbersResult | None]:
    """Raises InputError where the file is no trial."""
    try:
        record = json.loads(read_whole(path, _MOST_BYTES, "a trial"))
        return from_record(record, where=str(path))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path} is no trial that Redline has kept, or it is damaged") from None


def from_record(record: Mapping[str, Any], where: str = "this file") -> tuple[TrialResult | None, NumbersResult | None]:
    check_envelope(record, KIND, SCHEMA_VERSION, where=where)
    timed, numbers = record["time"], record["numbers"]
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


def _time_of(record: Mapping[str, Any]) -> TrialResult:
    """What the pairs say is worked out again."""
    pairs = tuple(TimedPair(before_s=float(before), after_s=float(after)) for before, after in record["pairs"])
    negligible = float(record.get("negligible", NEGLIGIBLE))
    before_peak, after_peak = record.get("peak_bytes", (0, 0))
    return TrialResult(
        before=str(record["before"]),
        after=str(record["after"]),
        timed=Timed(record["timed"]),
        stopped=Stopped(record["stopped"]),
        decision=_decided(pairs, negligible),
        pairs=pairs,
        cpu=_cpu_decision(record["cpu_time"], negligible),
        block_steps=int(record["block_steps"]),
        steps=int(record["steps"]),
        processes=int(record["processes"]),
        ranks=int(record["ranks"]),
        wall_s=float(record["wall_s"]),
        others_share=record["others_share"],
        seed=int(record["seed"]),
        negligible=negligible,
        levers=tuple(LeverOutcome(**outcome) for outcome in record["levers"]),
        error=str(record.get("error", "")),
        before_peak_bytes=int(before_peak),
        after_peak_bytes=int(after_peak),
    )


def _decided(pairs: tuple[TimedPair, ...], negligible: float) -> Decision | None:
    if not pairs:
        return None
    return decide([pair.before_s for pair in pairs], [pair.after_s for pair in pairs], negligible)


def _cpu_decision(record: Mapping[str, Any] | None, negligible: float) -> Decision | None:
    """Its pairs are not kept."""
    if record is None:
        return None
    low, high = record["low"], record["high"]
    known = PairedEstimate(
        change=float(record["change"]),
        low=-1.0 if low is None else float(low),
        high=inf if high is None else float(high),
        pairs=int(record["pairs"]),
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


def _numbers_of(record: Mapping[str, Any]) -> NumbersResult:
    """With what is shown of it: single tensors are not kept but for the first that deviates."""
    curves = CurveDifference(loss=_or_nan(record["loss_curve"]), gradient_norm=_or_nan(record["gradient_norm_curve"]))
    first = _first_of(record["first"]) if record["first"] else None
    verdict = Numerics(record["verdict"])
    judged = NumbersJudgement(
        holds=first is None,
        same_bits=verdict is Numerics.BITWISE,
        score=_or_inf(record["score"]),
        worst=None,
        first=first,
        deviating=first.deviating if first else 0,
        compared=int(record["compared"]),
        kinds=(),
        skipped=(),
        only_reference=(),
        only_candidate=(),
        names_match=True,
        curves=curves,
    )
    return NumbersResult(
        claimed=Numerics(record["claimed"]),
        verdict=verdict,
        structure=judged,
        precision=None,
        curves=curves,
        steps=int(record["steps"]),
        by_optimizer=bool(record["by_optimizer"]),
        notes=tuple(map(str, record["notes"])),
    )


def _first_of(record: Mapping[str, Any]) -> TensorDeviation:
    return TensorDeviation(
        key=TensorKey(step=int(record["step"]) - 1, kind=str(record["kind"]), name=str(record["name"])),
        score=_or_inf(record["score"]),
        difference=TensorDifference(
            error=nan, norm=nan, gain=_or_nan(record["gain"]), cosine=_or_nan(record["cosine"])
        ),
        deviating=int(record["deviating"]),
        compared=int(record["compared"]),
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
    return nan if value is None else float(value)


def _or_inf(value: float | None) -> float:
    return inf if value is None else float(value)
