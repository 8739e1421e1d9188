"""When everything in a synthetic job happens: a discrete-event model in true time, integer nanoseconds.

Rules: the host works through its program in order; a device operation starts when it has been launched and has
travelled to the device, its stream is free, and what it waits for has ended; a collective ends for everyone when the
last participant has arrived and the transfer is done. So a late rank makes the others wait, and the next step is late.

Each item is computed for all ranks of a stage at once: time is items x steps, memory 32 bytes x items x steps x ranks.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.support.traces.jobspec import JobSpec, Straggler
from tests.support.traces.messages import Message
from tests.support.traces.program import COMPUTE_STREAM, Item, Program, stage_program, unit_us

Nanoseconds = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

LAUNCH_AT = 0.35  # the launch call starts after this share of an operator's host time
PAUSE_US = 10.0
COPY_US = 12.0
COPY_WITHIN_US = 2.0  # of a few KB on the device
CALL_US = 150.0  # a call of the driver that takes memory
BATCH_GB_PER_S = {False: 50.0, True: 6.0}  # of a copy to the device, by whether its memory is pageable
SYNC_RETURN_NS = 3_000  # from the end of the device's work to the host running again
_MIN_DURATION_RATIO = 0.2


@dataclass(frozen=True, kw_only=True)
class StageSchedule:
    """True times of one pipeline stage; every array is [step, item, rank of the stage]."""

    first_rank: int
    program: Program
    host_start_ns: Nanoseconds
    host_end_ns: Nanoseconds
    device_start_ns: Nanoseconds  # zero where an item does nothing on the device
    device_end_ns: Nanoseconds

    @property
    def ranks(self) -> range:
        """The ranks of this stage, in the order of the last axis."""
        return range(self.first_rank, self.first_rank + self.host_start_ns.shape[2])


@dataclass(frozen=True, kw_only=True)
class SimulatedJob:
    """The simulated job."""

    spec: JobSpec
    stages: tuple[StageSchedule, ...]

    def stage_of(self, rank: int) -> StageSchedule:
        """The stage a rank belongs to."""
        return self.stages[self.spec.stage_of(rank)]


def simulate(spec: JobSpec) -> SimulatedJob:
    """Run the job in true time; the same spec always gives the same schedule."""
    stages = [_Stage(spec, index) for index in range(spec.shape.pp)]
    mailbox: _Mailbox = {}
    while any(not stage.finished for stage in stages):
        moved = [stage.run(mailbox) for stage in stages]
        if not any(moved):
            raise RuntimeError("the pipeline schedule cannot proceed")  # a bug here, not in the spec
    return SimulatedJob(spec=spec, stages=tuple(stage.schedule() for stage in stages))


@dataclass(frozen=True, kw_only=True)
class _Posted:
    """A send the sender has launched; its times are set when the receiver arrives."""

    stage: "_Stage"
    row: tuple[int, int]
    earliest_ns: Nanoseconds


_Mailbox = dict[tuple[int, int, str, int], _Posted]


class _Stage:
    """One pipeline stage in motion: host clocks, stream clocks, and the next item to run."""

    def __init__(self, spec: JobSpec, index: int) -> None:
        self.spec, self.index = spec, index
        self.program = stage_program(spec, index)
        self.first_rank = index * spec.ranks_per_stage
        size = (spec.steps, len(self.program), spec.ranks_per_stage)
        self.host_start, self.host_end, self.device_start, self.device_end = (
            np.zeros(size, dtype=np.int64) for _ in range(4)
        )
        self.host_ns: Nanoseconds = np.zeros(spec.ranks_per_stage, dtype=np.int64)
        self.stream_ns: dict[int, Nanoseconds] = {}
        self.step, self.item = 0, 0
        self._draw_step()

    @property
    def finished(self) -> bool:
        return self.step == self.spec.steps

    def run(self, mailbox: _Mailbox) -> bool:
        """Advance until the end or until a message is missing; says whether anything was done."""
        moved = False
        while not self.finished and self._advance(self.program[self.item], mailbox):
            moved = True
            self.item += 1
            if self.item == len(self.program):
                self.step, self.item = self.step + 1, 0
                if not self.finished:
                    self._draw_step()
        return moved

    def schedule(self) -> StageSchedule:
        return StageSchedule(
            first_rank=self.first_rank,
            program=self.program,
            host_start_ns=self.host_start,
            host_end_ns=self.host_end,
            device_start_ns=self.device_start,
            device_end_ns=self.device_end,
        )

    def _advance(self, item: Item, mailbox: _Mailbox) -> bool:
        if item.kind == "receive" and self._sender(item) not in mailbox:
            return False
        row = (self.step, self.item)
        cost = self.host_cost[self.item]
        if item.stream is not None:
            launched = self.host_ns + (LAUNCH_AT * cost).astype(np.int64) + round(self.spec.launch_latency_us * 1000)
            self._on_device(item, row, launched, mailbox)
        self.host_start[row] = self.host_ns
        self.host_ns = self.host_ns + cost
        if item.kind == "sync":
            self.host_ns = np.maximum(self.host_ns, self.stream_ns[COMPUTE_STREAM]) + SYNC_RETURN_NS
        self.host_end[row] = self.host_ns
        return True

    def _on_device(self, item: Item, row: tuple[int, int], launched: Nanoseconds, mailbox: _Mailbox) -> None:
        assert item.stream is not None
        earliest = launched
        for wait in item.waits:
            earliest = np.maximum(earliest, self.device_end[self.step, wait])
        if item.kind == "send":
            mailbox[self._receiver(item)] = _Posted(stage=self, row=row, earliest_ns=earliest)
            return
        start = np.maximum(earliest, self.stream_ns[item.stream]) if item.stream in self.stream_ns else earliest
        if item.kind == "receive":
            end = self._meet(mailbox.pop(self._sender(item)), start, item)
        elif item.kind == "collective":
            end = self._everyone_arrived(item, start) + self._end_jitter(start.size)
        else:
            end = start + self.device_cost[self.item]
        self._occupy(row, item.stream, start, end)

    def _occupy(self, row: tuple[int, int], stream: int, start: Nanoseconds, end: Nanoseconds) -> None:
        self.device_start[row], self.device_end[row] = start, end
        self.stream_ns[stream] = end

    def _everyone_arrived(self, item: Item, start: Nanoseconds) -> Nanoseconds:
        assert item.message is not None
        grid = start.reshape(self.spec.shape.dp, self.spec.shape.tp)
        last = grid.max(axis=0 if item.message.axis == "dp" else 1, keepdims=True)
        return np.broadcast_to(last, grid.shape).reshape(-1) + transfer_ns(self.spec, item.message)

    def _meet(self, posted: _Posted, start: Nanoseconds, item: Item) -> Nanoseconds:
        """Both ends of a point-to-point message finish together; returns the receiver's end."""
        assert item.message is not None
        sender, stream = posted.stage, posted.stage.program[posted.row[1]].stream
        assert stream is not None
        sent = np.maximum(posted.earliest_ns, sender.stream_ns.get(stream, posted.earliest_ns))
        done = np.maximum(sent, start) + transfer_ns(self.spec, item.message)
        sender._occupy(posted.row, stream, sent, done + self._end_jitter(done.size))
        return done + self._end_jitter(done.size)

    def _end_jitter(self, count: int) -> Nanoseconds:
        return self.random.integers(0, max(1, round(self.spec.end_jitter_us * 1000)), count)

    def _receiver(self, item: Item) -> tuple[int, int, str, int]:
        assert item.message is not None
        assert item.message.direction is not None
        peer = self.index + (1 if item.message.direction == "activation" else -1)
        return peer, self.step, item.message.direction, item.microbatch

    def _sender(self, item: Item) -> tuple[int, int, str, int]:
        assert item.message is not None
        assert item.message.direction is not None
        return self.index, self.step, item.message.direction, item.microbatch

    def _draw_step(self) -> None:
        """Draw what every item of this step costs on every rank, stragglers included."""
        spec, ranks = self.spec, self.spec.ranks_per_stage
        self.random = np.random.default_rng([spec.seed, self.index, self.step])
        units = np.array([item.units for item in self.program])
        device = units[:, None] * unit_us(spec, self.index) * self._noise(spec.kernel_jitter, ranks)
        for index, item in enumerate(self.program):
            if item.kind == "copy_within":
                device[index] = COPY_WITHIN_US
            elif item.kind in ("copy_in", "copy_out"):
                device[index] = max(COPY_US, item.size_bytes / BATCH_GB_PER_S[item.pageable] / 1000)
        host = np.array([_host_us(spec, item) for item in self.program])[:, None] * self._noise(spec.host_jitter, ranks)
        for straggler in spec.stragglers:
            column = straggler.rank - self.first_rank
            if 0 <= column < ranks and straggler.slows(self.step):
                self._slow_down(straggler, device[:, column], host[:, column])
        self.device_cost = np.rint(device * 1000).astype(np.int64)
        self.host_cost = np.rint(host * 1000).astype(np.int64)

    def _slow_down(self, straggler: Straggler, device_us: _Floats, host_us: _Floats) -> None:
        if straggler.where == "compute":
            passes = np.array([item.kind == "compute" and item.phase != "optimizer" for item in self.program])
            device_us[passes] *= 1 + straggler.extra_us / device_us[passes].sum()
            return
        kind = "input" if straggler.where == "input" else "pause"
        host_us[next(index for index, item in enumerate(self.program) if item.kind == kind)] += straggler.extra_us

    def _noise(self, ratio: float, ranks: int) -> _Floats:
        noise = self.random.normal(1.0, ratio, (len(self.program), ranks))
        return np.maximum(noise, _MIN_DURATION_RATIO)


def transfer_ns(spec: JobSpec, message: Message) -> int:
    """Time on the wire once everyone is there."""
    gb_per_s = spec.network_gb_per_s if spec.spans_nodes(message.axis) else spec.link_gb_per_s
    return round(spec.collective_latency_us * 1000 + message.wire_bytes / gb_per_s)


def _host_us(spec: JobSpec, item: Item) -> float:
    if item.replayed:
        return 0.0
    if item.kind == "input" or (spec.engine and item.kind == "pause"):
        return spec.input_us  # of an engine half of its scheduling: it has two pauses
    pause_us = PAUSE_US + spec.faults.host_work_us
    return {"pause": pause_us, "call": CALL_US, "graph": 4 * spec.launch_us}.get(item.kind, spec.launch_us)
