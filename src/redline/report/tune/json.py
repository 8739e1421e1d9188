"""A search for better settings as JSON for machines."""

from dataclasses import asdict
from typing import Any

from redline.artifacts import Envelope
from redline.report.data import json_text
from redline.report.language import speaking
from redline.report.tune.ladder import LadderRow, LadderRows, MeasuredChange, ladder_rows
from redline.report.tune.next_steps import next_steps
from redline.report.tune.rejection_messages import evidence
from redline.report.tune.sentences import doubts, effort_sentence, headline, memory_sentence
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_record import to_record
from redline.tuning.tune_result import Rejected, Rung, TuneResult

KIND = "tuning"
SCHEMA_VERSION = 1


def render(result: TuneResult) -> str:
    return json_text(as_record(result))


def as_record(result: TuneResult) -> dict[str, Any]:
    """In English, whatever language is spoken: programs read it."""
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline tune", synthetic=False)
    rows, ladder = ladder_rows(result), result.ladder
    with speaking("en"):
        return {
            **envelope.to_dict(),
            "command": result.command,
            "objective": str(result.objective),
            "levers": list(ladder.levers),
            "proven": rows.is_proven,
            "start": {"step_s": result.start_step_s, "peak_bytes": result.start_peak_bytes},
            "memory_limit_bytes": result.memory_limit_bytes or None,
            "ladder": {**_row(rows.start), "drift": rows.drift},
            "rungs": [_rung(rung, row) for rung, row in zip(ladder.rungs, rows.rungs, strict=True)],
            "whole": _whole(result, rows),
            "rejected": [_rejected(lever) for lever in ladder.rejected],
            "limiting": {"before": result.limiting_before, "now": result.limiting_now},
            "spent_s": result.spent_s,
            "budget_s": result.budget_s,
            "folder": str(result.folder),
            "written": list(result.written),
            "pasted": [asdict(lever) for lever in result.diff.unplaced] if result.diff else [],
            "next": [step.command for step in next_steps(result)],
            "text": " ".join(filter(None, _said(result, rows))),
        }


def _said(result: TuneResult, rows: LadderRows) -> list[str]:
    return [
        headline(result, rows),
        memory_sentence(result, rows),
        effort_sentence(result),
        *doubts(result, rows),
    ]


def _row(row: LadderRow) -> dict[str, Any]:
    """Where the job is with it."""
    return {"step_s": row.step_s, "peak_bytes": row.peak_bytes or None}


def _rung(rung: Rung, row: LadderRow) -> dict[str, Any]:
    return {
        "lever": row.lever,
        "finding": row.finding,
        "replaced": row.replaced,
        "change": _change(row.change),
        **_row(row),
        "numbers": str(row.numbers) if row.numbers else None,
        "allowed_other_numbers": row.agreed,
        "trial": to_record(rung.trial, rung.numbers),
        "alone": to_record(rung.alone, None) if rung.alone else None,
        "memory": _memory(rung.memory),
    }


def _whole(result: TuneResult, rows: LadderRows) -> dict[str, Any] | None:
    """None where it was not measured."""
    if rows.whole is None and result.ladder.whole is None and result.ladder.whole_memory is None:
        return None
    return {
        "change": _change(rows.whole.change if rows.whole else None),
        "promised": _change(rows.promised),
        "disagrees": rows.disagrees,
        **(_row(rows.whole) if rows.whole else {"step_s": None, "peak_bytes": None}),
        "trial": to_record(result.ladder.whole, None) if result.ladder.whole else None,
        "memory": _memory(result.ladder.whole_memory),
    }


def _rejected(rejected: Rejected) -> dict[str, Any]:
    return {
        "lever": rejected.candidate.name,
        "finding": rejected.candidate.finding,
        "why": str(rejected.why),
        "kept": list(rejected.kept),
        "evidence": evidence(rejected),
        "text": rejected.text,
        "trial": to_record(rejected.trial, rejected.numbers) if rejected.trial or rejected.numbers else None,
        "memory": _memory(rejected.memory),
    }


def _change(change: MeasuredChange | None) -> dict[str, float | None] | None:
    if change is None:
        return None
    return {"change": change.change, "low": _bound(change.low), "high": _bound(change.high)}


def _bound(bound: float) -> float | None:
    """None where there is no bound yet."""
    return bound if -1 < bound < float("inf") else None


def _memory(memory: MemoryTrial | None) -> dict[str, Any] | None:
    if memory is None:
        return None
    return {
        "before_bytes": list(memory.before_bytes),
        "after_bytes": list(memory.after_bytes),
        "before_step_s": list(memory.before_step_s),
        "after_step_s": list(memory.after_step_s),
        "error": memory.error,
    }
