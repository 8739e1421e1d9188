"""A change that was tried as JSON for machines; docs/reference/compare.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.artifacts import Envelope
from redline.report.json_text import json_text
from redline.report.language import speaking
from redline.report.trial.sentences import all_sentences, verdict_sentence
from redline.trials.decision import Decision
from redline.trials.trial_result import TrialResult

KIND = "trial"
SCHEMA_VERSION = 1


def render(trial: TrialResult) -> str:
    return json_text(as_record(trial))


def as_record(trial: TrialResult) -> dict[str, Any]:
    """In English, whatever language is spoken: programs read it."""
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline compare", synthetic=False)
    with speaking("en"):
        said = " ".join([verdict_sentence(trial), *all_sentences(trial)])
    return {
        **envelope.to_dict(),
        "before": trial.before,
        "after": trial.after,
        "verdict": {
            "judgement": None if trial.decision is None else str(trial.decision.verdict),
            "interleaved": True,
            "stopped": str(trial.stopped),
            "text": said,
        },
        "time": _decision(trial.decision),
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


def _decision(decision: Decision | None) -> dict[str, float | int | None] | None:
    if decision is None:
        return None
    known = decision.estimate
    return {"change": known.change, "low": _finite(known.low), "high": _finite(known.high), "pairs": known.pairs}


def _finite(bound: float) -> float | None:
    """None where there is no bound yet."""
    return bound if -1 < bound < float("inf") else None
