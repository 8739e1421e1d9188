"""The result of `compare` as JSON for machines; docs/reference/compare.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.artifacts import Envelope
from redline.report.compare.compare_result import CompareResult
from redline.report.compare.sentences import doubts, spread_sentences, verdict_sentence
from redline.report.data import json_text
from redline.report.language import speaking
from redline.trials.recordings import AmountChange, CountedChange

KIND = "comparison"
SCHEMA_VERSION = 1


def render(result: CompareResult) -> str:
    return json_text(as_record(result))


def as_record(result: CompareResult) -> dict[str, Any]:
    """In English, whatever language is spoken: programs read it."""
    difference = result.difference
    ranks = (*result.before.diagnosis.ranks, *result.after.diagnosis.ranks)
    envelope = Envelope(
        kind=KIND,
        schema_version=SCHEMA_VERSION,
        made_by="redline compare",
        synthetic=any(bool(rank.origin.synthetic) for rank in ranks),
    )
    with speaking("en"):
        said = [
            *([result.about] if result.about else []),
            verdict_sentence(difference),
            *spread_sentences(result),
            *doubts(result),
        ]
    return {
        **envelope.to_dict(),
        "before": result.names[0],
        "after": result.names[1],
        "altered": {"before": difference.altered[0], "after": difference.altered[1]},
        "verdict": {"judgement": str(difference.judgement), "interleaved": False, "text": " ".join(said)},
        "change": difference.change,
        "medians_ns": list(difference.medians_ns),
        "interval": None if difference.interval is None else [difference.interval.low, difference.interval.high],
        "rank_steps": list(difference.steps),
        "work": asdict(difference.work),
        "step": _change(difference.step),
        "accounts": list(map(_change, difference.accounts)),
        "phases": list(map(_change, difference.phases)),
        "ranks": list(map(_change, difference.ranks)),
        "operators": list(map(_counted, difference.operators)),
        "collectives": list(map(_counted, difference.collectives)),
        "memory": [asdict(row) for row in difference.memory],
        "findings": [
            {"code": row.code, "before_share": row.before, "after_share": row.after} for row in difference.findings
        ],
        "context": [{"what": row.what, "before": row.before, "after": row.after} for row in difference.context],
        "redacted": _redacted(result),
    }


def _redacted(result: CompareResult) -> list[dict[str, Any]] | None:
    if result.removed is None:
        return None
    return [{**asdict(removed), "kind": str(removed.kind)} for removed in result.removed]


def _change(row: AmountChange) -> dict[str, Any]:
    """Fractions as text too: floats do not add up exactly."""
    return {
        "name": row.name,
        "before_ns": float(row.before_ns),
        "after_ns": float(row.after_ns),
        "difference_ns": float(row.difference_ns),
        "exact_difference_ns": str(row.difference_ns),
    }


def _counted(row: CountedChange) -> dict[str, Any]:
    return {
        "name": row.name,
        "detail": row.detail,
        "before_calls": float(row.before_calls),
        "after_calls": float(row.after_calls),
        "before_ns": float(row.before_ns),
        "after_ns": float(row.after_ns),
        "difference_ns": float(row.difference_ns),
    }
