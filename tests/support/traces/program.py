"""What the host of one pipeline stage does in a step: an ordered list of items, each at most one device operation.

The model is a transformer of `layers` blocks; `operators` has what each consists of. Causes of lost time that the spec
asks for are put in here, as items of their own or as other operators; the rest of the step is the same without them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from tests.support.traces.faults import NO_FAULTS
from tests.support.traces.jobspec import Axis, JobSpec
from tests.support.traces.messages import (
    Direction,
    Message,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    gradient_all_reduce,
    point_to_point,
    reduce_scatter,
)
from tests.support.traces.operators import (
    HIDDEN,
    MATMUL_EFFICIENCY,
    PEAK_FLOP_PER_S,
    SEQUENCE,
    Op,
    layer_halves,
    layout_op,
    optimizer_ops,
)

Kind = Literal[
    "input",
    "pause",
    "copy_in",
    "copy_within",
    "graph",
    "compute",
    "collective",
    "send",
    "receive",
    "copy_out",
    "sync",
    "call",
    "resume",
]
Phase = Literal["input", "forward", "backward", "exchange", "optimizer", "end"]

COMPUTE_STREAM = 7
BUFFER_BYTES = 4 * HIDDEN
AXIS_STREAM: dict[Axis, int] = {"dp": 20, "tp": 24, "pp": 28}
RECEIVE_STREAM: dict[Direction, int] = {"activation": 28, "gradient": 36}
SEND_STREAM: dict[Direction, int] = {"activation": 32, "gradient": 40}


@dataclass(frozen=True, kw_only=True)
class Item:
    """One action of the host; `waits` are earlier items of the step whose device work must end first."""

    kind: Kind
    phase: Phase
    stream: int | None = None
    op: Op | None = None
    part: int = 0  # which kernel of a backward node this is
    layer: int = -1
    microbatch: int = 0
    message: Message | None = None
    waits: tuple[int, ...] = ()
    covers: int = 0  # operators around this item end so many items later
    inside: bool = False  # its kernel is launched by the operators around an item before it
    recomputed: bool = False  # a forward operator that runs again in the backward pass
    replayed: bool = False  # its kernel is a node of the graph that was launched before it
    call: str = ""  # the runtime call of a wait or of a call without device work
    size_bytes: int = 0  # of a copy to the device; that of the tokens when 0
    pageable: bool = False  # a copy from memory that is not pinned

    @property
    def units(self) -> float:
        """Device time in units of the program; only compute items have any."""
        return self.op.units if self.kind == "compute" and self.op is not None else 0.0


Program = tuple[Item, ...]


@lru_cache(maxsize=64)
def stage_program(spec: JobSpec, stage: int) -> Program:
    """The items one step of a pipeline stage consists of; every rank of the stage runs the same ones."""
    return _Writer(spec, stage).write()


@lru_cache(maxsize=64)
def unit_us(spec: JobSpec, stage: int) -> float:
    """How long one unit takes: what a stage computes without faults takes `step_compute_us`."""
    sound = stage_program(replace(spec, faults=NO_FAULTS), stage)
    return spec.step_compute_us / sum(item.units for item in sound)


def rows_per_microbatch(spec: JobSpec, stage: int) -> int:
    """Tokens per microbatch for which the products' FLOPs fit their durations; whole sequences when there is room."""
    unit_s = unit_us(spec, stage) * 1e-6
    rows = int(unit_s * MATMUL_EFFICIENCY * PEAK_FLOP_PER_S / (2 * HIDDEN**2))
    return rows // SEQUENCE * SEQUENCE if rows >= SEQUENCE else max(8, rows // 8 * 8)


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> Iterator[tuple[Phase, int]]:
    """The 1F1B order of a stage: fill the pipeline, alternate, drain."""
    warmup = min(stages - stage - 1, microbatches)
    for index in range(warmup):
        yield "forward", index
    for index in range(microbatches - warmup):
        yield "forward", warmup + index
        yield "backward", index
    for index in range(microbatches - warmup, microbatches):
        yield "backward", index


class _Writer:
    """Writes a stage's program item by item, remembering what later items must wait for."""

    def __init__(self, spec: JobSpec, stage: int) -> None:
        self.spec, self.faults = spec, spec.faults
        self.first_stage = stage == 0
        self.last_stage = stage == spec.shape.pp - 1
        self.stage = stage
        self.halves = layer_halves(spec)
        self.items: list[Item] = []
        self.last_compute: int | None = None
        self.pending: list[int] = []  # what the next compute item has to wait for
        self.in_flight: list[int] = []  # exchanges between experts that the next but one waits for
        self.gradient_syncs: list[int] = []

    def write(self) -> Program:
        self._begin()
        for phase, microbatch in one_forward_one_backward(self.stage, self.spec.shape.pp, self.spec.microbatches):
            if phase == "forward":
                self._forward(microbatch)
            elif not self.spec.engine:
                self._backward(microbatch)
        if not self.spec.engine:
            self._exchange_late()
            self.pending += self.gradient_syncs + self.in_flight
            for op in optimizer_ops(self.spec):
                self._compute(Item(kind="compute", phase="optimizer", op=op))
        if self.spec.sync_each_step:
            self._read("end")
        return tuple(self.items)

    def _begin(self) -> None:
        self._add(Item(kind="pause" if self.spec.engine else "input", phase="input"))
        self._add(Item(kind="pause", phase="input"))
        pageable, size_bytes = self.faults.pageable_batch, self.spec.batch_bytes
        self._copy_in("input", size_bytes=size_bytes, pageable=pageable)
        if self.faults.buffers and self.spec.shape.dp > 1:
            size_bytes = BUFFER_BYTES * self.faults.buffers
            waits = (self._message("forward", broadcast(self.spec, size_bytes), 0, after_compute=False),)
            for _ in range(self.faults.buffers):
                self._add(Item(kind="copy_within", phase="forward", stream=COMPUTE_STREAM, waits=waits))
        if self.spec.replay_graph:
            self._add(Item(kind="graph", phase="forward"))

    def _forward(self, microbatch: int) -> None:
        if not self.first_stage:
            self.pending.append(self._message("forward", point_to_point(self.spec, "recv", "activation"), microbatch))
        gathered = self._gather("forward", 0, microbatch)
        for layer in range(self.spec.layers_per_stage):
            self.pending += gathered
            # The next layer's parameters are gathered while this layer computes, unless that is the fault.
            gathered = self._gather("forward", layer + 1, microbatch) if not self.faults.no_prefetch else []
            for half, ops in enumerate(self.halves):
                if half:
                    self._exchange_tokens("forward", microbatch)
                for op in ops:
                    self._compute(Item(kind="compute", phase="forward", op=op, layer=layer, microbatch=microbatch))
                self._tensor_parallel("forward", microbatch)
            self._exchange_tokens("forward", microbatch)
            if microbatch == 0:
                self._interrupt(layer)
            if self.faults.no_prefetch:
                gathered = self._gather("forward", layer + 1, microbatch)
        if not self.last_stage:
            self._message("forward", point_to_point(self.spec, "send", "activation"), microbatch)

    def _backward(self, microbatch: int) -> None:
        if not self.last_stage:
            self.pending.append(self._message("backward", point_to_point(self.spec, "recv", "gradient"), microbatch))
        layers = self.spec.layers_per_stage
        gathered = self._gather("backward", layers - 1, microbatch)
        for layer in reversed(range(layers)):
            self.pending += gathered
            gathered = self._gather("backward", layer - 1, microbatch) if not self.faults.no_prefetch else []
            if self.faults.recompute:
                self._recompute(layer, microbatch)
            for half, ops in enumerate(reversed(self.halves)):
                if not half:
                    self._exchange_tokens("backward", microbatch)
                for op in reversed(ops):
                    for part in range(op.backward_parts):
                        self._compute(
                            Item(kind="compute", phase="backward", op=op, part=part, layer=layer, microbatch=microbatch)
                        )
                if not half:
                    self._exchange_tokens("backward", microbatch)
                self._tensor_parallel("backward", microbatch)
            self._sync_gradients(layer, microbatch)
            if self.faults.no_prefetch:
                gathered = self._gather("backward", layer - 1, microbatch)
        if self.faults.reduce_every_microbatch:
            self.pending += self.gradient_syncs  # DDP ends each backward pass with the exchange it began
        if not self.first_stage:
            self._message("backward", point_to_point(self.spec, "send", "gradient"), microbatch)

    def _recompute(self, layer: int, microbatch: int) -> None:
        ops = [op for half in self.halves for op in half]
        for place, op in enumerate(ops):
            covers = len(ops) - 1 if place == 0 else 0
            item = Item(kind="compute", phase="backward", op=op, layer=layer, microbatch=microbatch)
            self._compute(replace(item, recomputed=True, covers=covers))

    def _interrupt(self, layer: int) -> None:
        """Where the host waits for the device in the forward pass; every layer has its share."""
        layers = self.spec.layers_per_stage

        def here(count: int) -> range:
            return range(count * layer // layers, count * (layer + 1) // layers)

        for _ in here(self.faults.item_reads):
            self._read("forward")
        for _ in here(self.faults.device_syncs):
            self._add(Item(kind="sync", phase="forward", call="cudaDeviceSynchronize"))
        for _ in here(self.faults.small_copies):
            self._copy_in("forward", size_bytes=256, pageable=True)
        for _ in here(self.faults.allocations):
            self._add(Item(kind="sync", phase="forward", call="cudaFree"))
            self._add(Item(kind="call", phase="forward", call="cudaMalloc"))

    def _copy_in(self, phase: Phase, *, size_bytes: int, pageable: bool) -> None:
        """From pageable memory the host waits for the copy."""
        item = Item(kind="copy_in", phase=phase, stream=COMPUTE_STREAM, size_bytes=size_bytes, pageable=pageable)
        self._add(replace(item, covers=2 if pageable else 0))
        if pageable:
            self._add(Item(kind="sync", phase=phase))
            self._add(Item(kind="resume", phase=phase))

    def _read(self, phase: Phase, waits: tuple[int, ...] = ()) -> None:
        self._add(Item(kind="copy_out", phase=phase, stream=COMPUTE_STREAM, waits=waits))
        self._add(Item(kind="sync", phase=phase))
        self._add(Item(kind="resume", phase=phase))

    def _gather(self, phase: Phase, layer: int, microbatch: int) -> list[int]:
        wanted = self.spec.collectives == "all_gather_reduce_scatter" and self.spec.shape.dp > 1
        kept = phase == "backward" and not self.spec.reshard_after_forward
        if not wanted or kept or not 0 <= layer < self.spec.layers_per_stage:
            return []
        return [self._message(phase, all_gather(self.spec), microbatch, after_compute=self.faults.no_prefetch)]

    def _sync_gradients(self, layer: int, microbatch: int) -> None:
        spec = self.spec
        if spec.shape.dp == 1 or spec.collectives == "none" or self.faults.late_all_reduce:
            return
        last = microbatch == spec.microbatches - 1 or self.faults.reduce_every_microbatch
        if spec.collectives == "all_gather_reduce_scatter":
            self.gradient_syncs.append(self._message("backward", reduce_scatter(spec), microbatch))
        elif last and self._closes_bucket(layer):
            self.gradient_syncs.append(self._message("backward", gradient_all_reduce(spec), microbatch))

    def _exchange_late(self) -> None:
        """What is reduced after the backward pass: gradients by hand, and numbers that the host reads at once."""
        if self.spec.shape.dp == 1:
            return
        if self.faults.late_all_reduce:
            for _ in range(min(self.spec.buckets, self.spec.layers_per_stage)):
                self.gradient_syncs.append(self._message("exchange", gradient_all_reduce(self.spec), 0))
        for _ in range(self.faults.small_all_reduces):
            reduced = self._message("exchange", all_reduce(self.spec, "dp", 4, dtype="Float"), 0)
            self._read("exchange", (reduced,))

    def _closes_bucket(self, layer: int) -> bool:
        """Whether the layer, counted from the last, is the final one of a gradient bucket."""
        layers, buckets = self.spec.layers_per_stage, min(self.spec.buckets, self.spec.layers_per_stage)
        done = layers - layer
        return done * buckets // layers > (done - 1) * buckets // layers

    def _exchange_tokens(self, phase: Phase, microbatch: int) -> None:
        """Send tokens to experts, or back; hidden ones are waited for at the next exchange."""
        if self.spec.experts == "none" or self.spec.shape.dp == 1:
            return
        exchange = self._message(phase, all_to_all(self.spec), microbatch)
        if self.spec.experts == "exposed":
            self.pending.append(exchange)
        else:
            self.pending += self.in_flight
            self.in_flight = [exchange]

    def _tensor_parallel(self, phase: Phase, microbatch: int) -> None:
        if self.spec.shape.tp > 1:
            message = all_reduce(self.spec, "tp", self.spec.activation_bytes)
            self.pending.append(self._message(phase, message, microbatch))

    def _compute(self, item: Item) -> None:
        """Add a kernel; one that needs another layout comes with the kernels that convert before and after it."""
        waits, self.pending = tuple(self.pending), []
        item = replace(item, stream=COMPUTE_STREAM, waits=waits, replayed=self.spec.replay_graph)
        if item.op is not None and item.op.converts and item.phase == "forward":
            self._add(replace(item, op=layout_op(item.op, 0), covers=2))
            self._add(replace(item, waits=(), inside=True))
            item = replace(item, op=layout_op(item.op, 1), waits=(), inside=True)
        self.last_compute = self._add(item)

    def _message(self, phase: Phase, message: Message, microbatch: int, *, after_compute: bool = True) -> int:
        kind: Kind = "collective"
        stream = AXIS_STREAM[message.axis]
        if message.direction is not None:
            kind = "send" if message.name == "send" else "receive"
            stream = (SEND_STREAM if kind == "send" else RECEIVE_STREAM)[message.direction]
        waits = (self.last_compute,) if after_compute and kind != "receive" and self.last_compute is not None else ()
        return self._add(
            Item(kind=kind, phase=phase, stream=stream, message=message, microbatch=microbatch, waits=waits)
        )

    def _add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1
