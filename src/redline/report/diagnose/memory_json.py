"""The memory of a diagnosis for programs; docs/reference/diagnose.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.findings.pages import page_of
from redline.ledger.job.job_memory import JobMemory
from redline.ledger.memory.device_memory import DeviceMemory
from redline.report.memory.memory_result import code


def memory_record(memory: JobMemory) -> dict[str, Any]:
    fullest = memory.fullest
    return {
        "fullest": None if fullest is None else {"rank": fullest.rank, "device": fullest.device},
        "devices": list(map(_device, memory.devices)),
        "causes": [{**asdict(cause), "title": page_of(cause.code).title} for cause in memory.causes],
        "left_out": list(map(asdict, memory.left_out)),
    }


def _device(device: DeviceMemory) -> dict[str, Any]:
    peak = device.peak
    return {
        "rank": device.rank,
        "device": device.device,
        "peak_bytes": peak.live_bytes,
        "reserved_bytes": peak.reserved_bytes,
        "accounts": {code(str(account)): size for account, size in peak.accounts.items()},
        "steps": [
            {"label": step.label, "peak_bytes": step.peak_bytes, "end_bytes": step.end_bytes} for step in device.steps
        ],
        "growth": [{**asdict(growth), "account": code(str(growth.account))} for growth in device.growth],
        "holders": [{**asdict(holder), "account": code(str(holder.account))} for holder in peak.holders],
        "before_history_bytes": peak.before_bytes,
        "missed_events": device.missed,
    }
