"""What `redline run` recorded about the host beside the trace: counters, threads, machine, collections, facts, calls.

Every part may be missing, and is empty then: traces of other tools have none of it. Times are nanoseconds on the clock
of the timeline that they belong to.
"""

from dataclasses import field
from enum import IntEnum

import numpy as np

from redline.timeline.table import I32, I64, Column, Table, column
from redline.values import dataclass

_FAR_NS = 2**62  # numbers below can be added


class StepCounters(Table):
    """What the training thread and its process used, per captured step."""

    begin_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    cpu_ns: I64 = column(np.int64)  # in which the training thread ran
    run_queue_ns: I64 = column(np.int64)  # in which it was ready to run and waited for a core; -1: not known
    involuntary: Column = column(np.int64)  # times that it was taken off its core
    voluntary: Column = column(np.int64)  # times that it went to sleep
    process_cpu_ns: I64 = column(np.int64)  # of all threads of the process


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTime:
    """What one thread used over the whole window."""

    name: str
    tid: int
    cpu_ns: int
    run_queue_ns: int = -1
    python: bool = False  # started by Python code
    training: bool = False  # the one that the window was open in


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineShare:
    """What the process could use of its machine; None where the system does not say."""

    cores_allowed: int | None = None  # by affinity
    cores: int | None = None  # of the machine
    quota_cores: float | None = None  # by cgroup
    throttled_ns: int | None = None  # by that quota, in the window
    torch_threads: int | None = None
    interop_threads: int | None = None
    running: float | None = None  # threads that could run at one moment, of the whole machine
    ranks: int | None = None  # of the job on this machine


class Collections(Table):
    """Runs of Python's garbage collector."""

    begin_ns: I64 = column(np.int64)
    dur_ns: I64 = column(np.int64)
    generation: Column = column(np.int64)
    collected: Column = column(np.int64)  # objects


class StackSamples(Table):
    """When the stack of the training thread was to be read, how much later it was, and the stack."""

    time_ns: I64 = column(np.int64)
    delay_ns: I64 = column(np.int64)  # in which the thread held the interpreter lock; -1: not known
    stack: I32 = column(np.int32)  # of the stacks


class ModelCallTable(Table):
    """Outermost calls of modules, in inference."""

    time_ns: I64 = column(np.int64)  # when the call began
    model: I32 = column(np.int32)  # of the models


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledModel:
    """An outermost module."""

    kind: str  # its class
    denoises: bool = False  # it takes a timestep
    training: bool = False  # its mode


@dataclass(frozen=True, kw_only=True)
class ModelCalls:
    """What modules were called with: equal inputs have equal numbers, in this window."""

    table: ModelCallTable = field(default_factory=ModelCallTable.empty)
    models: tuple[CalledModel, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()  # of each call
    shapes: tuple[str, ...] = ()  # of each input, with its type; "" for what is no tensor
    used: tuple[int, ...] = ()  # of each that is a mask, the positions that the longest text may see; -1 of others

    def self_check(self) -> None:
        """Numbers point to what is there."""
        check_table(self.table)
        _expect(self.table.within("model", 0, len(self.models)), "calls point to models")
        _expect(len(self.inputs) == len(self.table), "each call has inputs")
        numbers = [number for inputs in self.inputs for number in inputs]
        _expect(all(0 <= number < len(self.shapes) for number in numbers), "inputs have shapes")
        _expect(len(self.used) in (0, len(self.shapes)), "each input is a mask or not")


class HeldKind(IntEnum):
    """What a tensor is to the job that holds it."""

    PARAMETER = 0
    BUFFER = 1
    GRADIENT = 2
    OPTIMIZER_STATE = 3
    BUCKET = 4  # of DDP: gradients are copied into it to be reduced


class HeldTable(Table):
    """Storages that were held at a moment, each once."""

    time_ns: I64 = column(np.int64)
    kind: Column = column(np.int64)  # a HeldKind
    device: Column = column(np.int64)  # -1: the host
    address: I64 = column(np.int64)
    bytes: I64 = column(np.int64)
    name: I32 = column(np.int32)  # of the names


@dataclass(frozen=True, kw_only=True)
class HeldMemory:
    """What the models and optimizers of the job held, as they said themselves: at the borders of the window, and when
    an optimizer had stepped."""

    table: HeldTable = field(default_factory=HeldTable.empty)
    names: tuple[str, ...] = ()  # of parameters: that of the module, and its own

    def self_check(self) -> None:
        """Numbers point to what is there."""
        check_table(self.table)
        _expect(self.table.within("name", 0, len(self.names)), "what is held has a name")
        _expect(self.table.within("kind", 0, len(HeldKind)), "what is held is of a known kind")
        _expect(self.table.within("bytes", 0, _FAR_NS), "nothing held is negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerFacts:
    """One optimizer of the job, as it was set."""

    kind: str
    fused: bool | None = None
    foreach: bool | None = None
    capturable: bool | None = None
    parameters: int = 0
    elements: int = 0
    groups: int = 0
    frozen: int = 0
    without_gradient: int | None = None  # parameters, right after a step
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderFacts:
    """One data loader."""

    workers: int = 0
    pin_memory: bool | None = None
    prefetch: int | None = None
    persistent: bool | None = None
    batch_size: int | None = None
    dataset: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DdpFacts:
    """One module in DistributedDataParallel."""

    find_unused_parameters: bool | None = None
    static_graph: bool | None = None
    bucket_bytes: int | None = None
    broadcast_buffers: bool | None = None
    gradient_as_bucket_view: bool | None = None
    parameters: int = 0
    unused_bytes: int | None = None  # of parameters that the search for unused ones found


@dataclass(frozen=True, slots=True, kw_only=True)
class FsdpFacts:
    """A model sharded by FSDP."""

    units: int = 0
    reshard_after_forward: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFacts:
    """What torch.compile did, with the reasons that it gave."""

    graphs: int = 0
    breaks: tuple[tuple[str, int], ...] = ()
    places: tuple[tuple[str, int], ...] = ()  # after which functions go on: function:line
    recompiles: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFacts:
    """Modes that PyTorch was in."""

    training: bool | None = None
    grad_enabled: bool | None = None
    inference_mode: bool | None = None
    autocast: str | None = None
    anomaly: bool | None = None
    deterministic: bool | None = None
    default_dtype: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorFacts:
    """How device memory is allocated."""

    caching: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the objects of the job say of themselves."""

    optimizers: tuple[OptimizerFacts, ...] = ()
    loaders: tuple[LoaderFacts, ...] = ()
    ddp: tuple[DdpFacts, ...] = ()
    fsdp: tuple[FsdpFacts, ...] = ()
    compile: CompileFacts | None = None
    modes: ModeFacts | None = None
    allocator: AllocatorFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """How many collectives a process group had had, on a backend that writes no numbers of them."""

    name: str
    ranks: tuple[int, ...] = ()
    opened: int  # when the window began
    closed: int  # when it ended


@dataclass(frozen=True, kw_only=True)
class HostEvidence:
    """All that was recorded about the host of one rank."""

    steps: StepCounters = field(default_factory=StepCounters.empty)
    threads: tuple[ThreadTime, ...] = ()  # the busiest first
    machine: MachineShare = field(default_factory=MachineShare)
    collections: Collections | None = None  # None: they were not recorded; empty: none was long
    samples: StackSamples = field(default_factory=StackSamples.empty)
    sample_rate_hz: float = 0.0
    stacks: tuple[tuple[str, ...], ...] = ()  # each innermost frame first
    facts: JobFacts = field(default_factory=JobFacts)
    calls: ModelCalls = field(default_factory=ModelCalls)
    held: HeldMemory = field(default_factory=HeldMemory)
    groups: tuple[GroupCount, ...] = ()

    def self_check(self) -> None:
        """What all evidence promises, as assertions."""
        for table in (self.steps, self.samples, self.collections):
            if table is not None:
                check_table(table)
        self.calls.self_check()
        self.held.self_check()
        _expect(self.samples.within("stack", 0, len(self.stacks)), "samples point into stacks")


def check_table(table: Table) -> None:
    """Rows are in the order of time, nothing lasts for less than nothing, and sums fit."""
    table.self_check()
    columns = table.columns()
    first = next(iter(columns.values()))
    _expect(bool((np.diff(first) >= 0).all()), "rows are in the order of time")
    _expect(all(table.within(name, -_FAR_NS, _FAR_NS) for name in columns), "numbers fit")
    if "end_ns" in columns:
        _expect(bool((columns["end_ns"] >= first).all()), "no step is negative")
    _expect("dur_ns" not in columns or table.within("dur_ns", 0, _FAR_NS), "no collection is negative")


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise of host evidence: {promise}")
