"""The memory of one device, from a snapshot or a trace: its peak, how it came there, and the request that failed."""

from dataclasses import field
from pathlib import Path

from redline.errors import InputError
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import MemoryHistory, memory_history, without_events
from redline.ledger.memory.attribution import attributed
from redline.ledger.memory.byte_ledger import ByteLedger, LedgerError, byte_ledger
from redline.ledger.memory.memory_course import MemoryCourse, MemoryGrowth, memory_course
from redline.ledger.memory.out_of_memory import OutOfMemory, out_of_memory
from redline.ledger.rank.host_phases import Phase
from redline.timeline.problems import Problem
from redline.trace.snapshot.read_snapshot import read_snapshot
from redline.values import dataclass

HOST = -1  # instead of the number of a device


@dataclass(frozen=True, kw_only=True)
class StepPeak:
    """The most that was in use in a step."""

    label: str
    start_ns: int  # since the first event
    peak_bytes: int
    end_bytes: int  # in use at its end


@dataclass(frozen=True, kw_only=True)
class PeakEvidence:
    """What a trace tells of its peak beyond the accounts."""

    phase: Phase | None = None  # of a training step; None where it is not known
    stale_gradients_bytes: int = 0  # from before the pass that the peak is in
    earlier_bytes: dict[MemoryAccount, int] = field(default_factory=dict)  # activations and logits of earlier steps
    left_over_bytes: int = 0  # of these, what was let go by the end of the step
    left_over_site: str = ""  # where most of that was made


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """What a snapshot or a trace says of one device."""

    file: str
    device: int  # -1: the host
    events: int
    span_us: int  # of the history
    peak: ByteLedger  # when most was in use
    failure: OutOfMemory | None  # the last request that failed
    failures: int
    history_is_whole: bool
    contradictions: int  # of the history, which is then not used
    problems: tuple[Problem, ...]
    course: MemoryCourse
    is_trace: bool = False  # events of a profiler, not a snapshot of the allocator
    rank: int | None = None
    steps: tuple[StepPeak, ...] = ()
    growth: tuple[MemoryGrowth, ...] = ()
    modules: tuple[tuple[str, int], ...] = ()  # bytes of activations at the peak, by part of the model
    evidence: PeakEvidence = field(default_factory=PeakEvidence)
    accumulates: bool = False  # several backward passes add up their gradients before the optimizer steps
    is_sharded: bool = False  # each rank keeps a part of the parameters
    has_sites: bool = True  # who holds the memory is recorded
    forward_share: float = 0.0  # of the time of steps, for the forward pass; 0 where it is not known, as on a device
    used_share: float = 1.0  # of the positions that the model computes: the rest is padding
    capacity_bytes: int = 0  # of the device; 0 where it is not known
    missed: int = 0  # events that a trace has lost

    @property
    def shown(self) -> ByteLedger:
        """The moment that matters: of the failure, else of the peak."""
        return self.peak if self.failure is None else self.failure.ledger

    @property
    def is_host(self) -> bool:
        return self.device == HOST

    @property
    def growth_bytes_per_step(self) -> int:
        """Of all call sites together."""
        return sum(growth.bytes_per_step for growth in self.growth)


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
    table = history.allocations
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
        course=memory_course(table, memory.account, times * 1000, history.reserved_bytes()),
        is_sharded=memory.shard_ratio > 1,
    )
