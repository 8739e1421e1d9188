"""A change that was tried as JSON for machines; docs/reference/compare.md describes every field."""

from dataclasses import asdict
from math import isfinite
from typing import Any

from redline.artifacts import Envelope
from redline.report.json_text import json_text
from redline.report.language import speaking
from redline.report.trial.sentences import everything
from redline.trials.decision import Decision
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_result import TrialResult

KIND = "trial"
SCHEMA_VERSION = 1


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    return json_text(as_record(trial, numbers))


def as_record(trial: TrialResult | None, numbers: NumbersResult | None) -> dict[str, Any]:
    """In English, whatever language is spoken: programs read it."""
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline compare", synthetic=False)
    with speaking("en"):
        said = " ".join(everything(trial, numbers))
    return {
        **envelope.to_dict(),
        "text": said,
        "time": _time(trial) if trial else None,
        "numbers": _numbers(numbers) if numbers else None,
    }


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
        "levers": [asdict(outcome) for outcome in trial.levers],
        "pairs": [[pair.before_s, pair.after_s] for pair in trial.pairs],
    }


def _numbers(numbers: NumbersResult) -> dict[str, Any]:
    first = numbers.first
    return {
        "holds": numbers.holds,
        "claimed": str(numbers.claimed),
        "verdict": str(numbers.verdict),
        "score": _finite_or_none(numbers.score),
        "steps": numbers.steps,
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


def _finite_or_none(value: float) -> float | None:
    return value if isfinite(value) else None


def _decision(decision: Decision | None) -> dict[str, float | int | None] | None:
    if decision is None:
        return None
    known = decision.estimate
    return {"change": known.change, "low": _finite(known.low), "high": _finite(known.high), "pairs": known.pairs}


def _finite(bound: float) -> float | None:
    """None where there is no bound yet."""
    return bound if -1 < bound < float("inf") else None
