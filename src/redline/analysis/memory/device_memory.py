"""The memory of one device of a snapshot: its peak, and the request that failed, if one did."""

from dataclasses import dataclass
from pathlib import Path

from redline.analysis.memory.allocations import MemoryHistory, memory_history, without_events
from redline.analysis.memory.attribution import attributed
from redline.analysis.memory.byte_ledger import ByteLedger, LedgerError, byte_ledger
from redline.analysis.memory.out_of_memory import OutOfMemory, out_of_memory
from redline.errors import InputError
from redline.timeline.problems import Problem
from redline.trace.snapshot.read_snapshot import read_snapshot


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """What a snapshot says of one device."""

    file: str
    device: int
    events: int
    span_us: int  # of the history
    peak: ByteLedger  # when most was in use
    failure: OutOfMemory | None  # the last request that failed
    failures: int
    history_is_whole: bool
    contradictions: int  # of the history, which is then not used
    problems: tuple[Problem, ...]

    @property
    def shown(self) -> ByteLedger:
        """The moment that matters: of the failure, else of the peak."""
        return self.peak if self.failure is None else self.failure.ledger


def read_device_memories(path: Path) -> tuple[DeviceMemory, ...]:
    """Of every device that a snapshot holds memory of. InputError where it holds none, or cannot be read."""
    snapshot = read_snapshot(path)
    histories = [memory_history(snapshot, device) for device in snapshot.devices]
    used = [history for history in histories if len(history.segments) or len(history.events)]
    if not used:
        raise InputError(f"{path}: a memory snapshot that holds nothing: no segments and no history.")
    return tuple(map(_device_memory, used))


def _device_memory(history: MemoryHistory) -> DeviceMemory:
    """A history with which the ledger does not add up is left out."""
    try:
        return _with_history(history)
    except LedgerError:
        return _with_history(without_events(history))


def _with_history(history: MemoryHistory) -> DeviceMemory:
    memory = attributed(history)
    times = history.events.at_us
    return DeviceMemory(
        file=history.snapshot.name,
        device=history.device,
        events=len(history.events),
        span_us=int(times.max() - times.min()) if len(times) else 0,
        peak=byte_ledger(memory, history.peak),
        failure=out_of_memory(memory, history.ooms[-1]) if history.ooms else None,
        failures=len(history.ooms),
        history_is_whole=history.snapshot.history_is_whole,
        contradictions=history.contradictions,
        problems=history.snapshot.problems,
    )
