"""What the record of a run says beside its traces: how it was started, on what, and its peaks of memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redline.capture.captured import window_of
from redline.capture.run_record import RankRecord, RunRecord

RESIDENT = "host memory of a process"
ALLOCATED = "allocated on the device"
RESERVED = "reserved on the device"
_MOST_BYTES = 2**60  # more is in no machine
_OF_ALLOCATOR = {ALLOCATED: "allocated_bytes.all.peak", RESERVED: "reserved_bytes.all.peak"}


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Of a recording; empty where it has no record of a run beside it."""

    context: Mapping[str, str] = field(default_factory=dict)  # what may differ between two runs, by name
    peak_bytes: Mapping[str, int] = field(default_factory=dict)  # of the rank that has the highest


NO_RUN = RunFacts()


def run_facts_of(traces: Sequence[Path]) -> RunFacts:
    window = window_of(traces)
    if window is None:
        return NO_RUN
    record, _, restart = window
    return RunFacts(
        context=_context(record), peak_bytes=_peaks([rank for rank in record.ranks if rank.restart == restart])
    )


def _context(record: RunRecord) -> dict[str, str]:
    """The interpreter is no part of the command: its path differs where nothing else does."""
    machine = record.machine
    told = {
        "command": " ".join(record.command[1:] if record.launcher == "python" else record.command),
        "CPU": str(machine.get("cpu") or ""),
        "cores": str(machine.get("cores") or ""),
        "system": str(machine.get("system") or ""),
    }
    for name, versions in sorted(_versions(record).items()):
        told[f"version of {name}"] = "; ".join(sorted(versions))
    return told


def _versions(record: RunRecord) -> dict[str, set[str]]:
    """Of all ranks; anybody may have written the record, so they may be anything."""
    by_name: dict[str, set[str]] = {}
    for rank in record.ranks:
        versions = rank.facts.get("versions")
        for name, version in versions.items() if isinstance(versions, dict) else ():
            by_name.setdefault(str(name), set()).add(str(version))
    return by_name


def _peaks(ranks: Sequence[RankRecord]) -> dict[str, int]:
    peaks = {RESIDENT: _highest(rank.peak_bytes for rank in ranks)}
    for name, counter in _OF_ALLOCATOR.items():
        peaks[name] = _highest(_allocated(rank, counter) for rank in ranks)
    return {name: peak for name, peak in peaks.items() if 0 < peak <= _MOST_BYTES}


def _allocated(rank: RankRecord, counter: str) -> int:
    """0 where there is no accelerator, or the record is not sound."""
    memory = rank.facts.get("memory")
    amount = memory.get(counter, 0) if isinstance(memory, dict) else 0
    return amount if isinstance(amount, int) else 0


def _highest(amounts: Iterable[int]) -> int:
    return max(amounts, default=0)
