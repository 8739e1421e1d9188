"""The result of `memory` for programs; docs/reference/memory.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.analysis.memory.byte_ledger import ByteLedger
from redline.analysis.memory.device_memory import DeviceMemory
from redline.analysis.memory.out_of_memory import OutOfMemory
from redline.analysis.memory.plan_comparison import ComparedBytes, PlanComparison
from redline.artifacts import Envelope
from redline.report.json_text import json_text
from redline.report.memory.memory_result import MemoryResult

KIND = "memory"
_SCHEMA_VERSION = 1
_MOST_HOLDERS = 100


def render(result: MemoryResult) -> str:
    envelope = Envelope(kind=KIND, schema_version=_SCHEMA_VERSION, made_by="redline memory")
    return json_text(
        {
            **envelope.to_dict(),
            "devices": [_device(result, device) for device in result.devices],
            "plan": None if result.comparison is None else _planned(result.comparison),
            "causes": [asdict(cause) for cause in result.causes],
            "failures": [{"path": failure.path, "message": failure.message} for failure in result.failures],
        }
    )


def _device(result: MemoryResult, device: DeviceMemory) -> dict[str, Any]:
    return {
        "file": device.file,
        "device": device.device,
        "events": device.events,
        "span_us": device.span_us,
        "history_is_whole": device.history_is_whole,
        "contradictions": device.contradictions,
        "problems": [{"reason": problem.reason.code, "count": problem.count} for problem in device.problems],
        "peak": _ledger(device.peak),
        "out_of_memory": None if device.failure is None else _failure(device.failure),
        "outside_bytes": result.outside_bytes(device),
        "rank": device.rank,
        "steps": [asdict(step) for step in device.steps],
        "growth": [{**asdict(growth), "account": code(str(growth.account))} for growth in device.growth],
        "activations_by_module": [{"module": module, "size_bytes": size} for module, size in device.modules],
        "missed_events": device.missed,
        "course": {
            "at_ns": list(device.course.at_ns),
            "has_times": device.course.has_times,
            "accounts": {code(str(account)): list(values) for account, values in device.course.accounts.items()},
        },
    }


def _ledger(ledger: ByteLedger) -> dict[str, Any]:
    return {
        "moment": ledger.moment,
        "reserved_bytes": ledger.reserved_bytes,
        "live_bytes": ledger.live_bytes,
        "accounts": {code(str(account)): size for account, size in ledger.accounts.items()},
        "rounding_bytes": ledger.rounding_bytes,
        "no_stack_bytes": ledger.no_stack_bytes,
        "before_history_bytes": ledger.before_bytes,
        "holes_bytes": list(ledger.holes[:_MOST_HOLDERS]),
        "holders": [
            {**asdict(holder), "account": code(str(holder.account))} for holder in ledger.holders[:_MOST_HOLDERS]
        ],
    }


def _failure(failure: OutOfMemory) -> dict[str, Any]:
    return {
        "asked_bytes": failure.asked_bytes,
        "needed_bytes": failure.needed_bytes,
        "driver_free_bytes": failure.driver_free_bytes,
        "short_bytes": failure.short_bytes,
        "site": failure.site,
        "account": code(str(failure.account)),
        "logits": None if failure.shape is None else asdict(failure.shape),
        "free_in_pages_bytes": failure.in_pieces_bytes,
        "expandable_segments": failure.has_expandable,
        "changes": [{**asdict(change), "change": code(str(change.change))} for change in failure.changes],
        "ledger": _ledger(failure.ledger),
    }


def _planned(comparison: PlanComparison) -> dict[str, Any]:
    plan = comparison.plan
    further = {
        "in_use": comparison.in_use,
        "cached_but_free": comparison.cached,
        "outside_of_torch": comparison.outside,
    }
    return {
        "file": plan.file,
        "model": plan.model,
        "machine": plan.machine,
        "dtype": plan.dtype,
        "devices": plan.devices,
        "compared_file": comparison.device.file,
        "compared_device": comparison.device.device,
        "compared_rank": comparison.device.rank,
        "accounts": {code(str(account)): _compared(amount) for account, amount in comparison.accounts.items()},
        **{name: _compared(amount) for name, amount in further.items()},
    }


def _compared(amount: ComparedBytes) -> dict[str, Any]:
    return {
        "predicted_bytes": amount.predicted_bytes,
        "measured_bytes": amount.measured_bytes,
        "difference_bytes": amount.difference_bytes,
        "difference_share": amount.difference_share,
    }


def code(words: str) -> str:
    """As a name that programs like: logits_and_loss."""
    return words.replace(",", "").replace(" ", "_")
