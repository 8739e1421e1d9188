"""Jobs whose memory is known, healthy and flawed."""

from dataclasses import dataclass, replace
from pathlib import Path

import redline
from redline.ledger.memory.device_memory import HOST
from redline.report.memory.memory_result import MemoryResult
from tests.support.events import HOST_PID, MAIN_THREAD, Event, document, op, region
from tests.support.rules.matching import described


def mark(ts: float, size: int, address: int, total: int = -1, device: int = HOST, reserved: int = -1) -> Event:
    args = {"Bytes": size, "Addr": address, "Device Id": device, "Device Type": int(device != HOST)}
    if total >= 0:
        args |= {"Total Allocated": total, "Total Reserved": reserved}
    return {
        "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]",
        "pid": HOST_PID, "tid": MAIN_THREAD, "ts": ts, "args": args,
    }  # fmt: skip


MIB = 1 << 20
STEPS = 5
LONG_US = 100


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training loop in MiB: what each step makes, and what it forgets. Parameters are from before the recording."""

    parameters: int = 40
    states: int = 0  # of the optimizer, from before the recording
    activations: int = 10
    logits: int = 2
    gradients: int = 8
    temporary: int = 1  # of the optimizer
    kept: int = 0  # of each step, for ever
    clears_late: bool = False  # zero_grad after the forward pass
    left_over: int = 0  # of each step, until the optimizer of the next
    padded_to: int = 0  # positions, of rows of 20 and more; 0: not padded
    capacity: int = 0  # of the device; 0: the trace does not say
    reserved: int = 100

    def events(self) -> list[Event]:
        made = _Events(total=self.parameters + self.states, reserved=max(self.reserved, 1))
        for number in range(STEPS):
            self._step(made, number, LONG_US * number)
        return made.events

    def _step(self, made: "_Events", number: int, at: int) -> None:
        made.events.append(region(f"ProfilerStep#{number}", at, LONG_US - 1))
        is_late = self.clears_late and number > 0
        made.events.append(op("aten::linear", at + 10, 10, **{"Sequence number": 2 * number}))
        made.change(at + 11, "activations", self.activations)
        if self.kept:
            made.change(at + 12, f"kept {number}", self.kept)
        if self.left_over:
            made.change(at + 13, f"left over {number}", self.left_over)
        if self.padded_to:
            made.events.append(self._padding(number, at + 2))
        made.events.append(op("aten::nll_loss", at + 22, 8, **{"Sequence number": 2 * number + 1}))
        made.change(at + 23, "logits", self.logits)
        if is_late:
            made.events.append(region("Optimizer.zero_grad#SGD.zero_grad", at + 31, 2))
            made.change(at + 32, "gradients", -self.gradients)
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        made.events.append(op(node, at + 40, 20, **{"Sequence number": 2 * number, "Fwd thread id": 1}))
        made.change(at + 41, "logits", -self.logits)
        made.change(at + 42, "activations", -self.activations)
        made.change(at + 43, "gradients", self.gradients)
        if self.left_over and number:
            made.change(at + 44, f"left over {number - 1}", -self.left_over)
        made.events.append(region("Optimizer.step#SGD.step", at + 70, 10))
        made.events.append(op("aten::_foreach_sqrt", at + 71, 8))
        made.change(at + 72, "temporary", self.temporary)
        made.change(at + 76, "temporary", -self.temporary)
        if not self.clears_late:
            made.events.append(region("Optimizer.zero_grad#SGD.zero_grad", at + 85, 5))
            made.change(at + 86, "gradients", -self.gradients)

    def _padding(self, number: int, at: int) -> Event:
        length = 20 + number
        args = described("long int", [2, length]) | {"Concrete Inputs": ["", f"[0, {self.padded_to - length}]", "0."]}
        return op("aten::constant_pad_nd", at, 1, **args)


class _Events:
    """Memory events of a GPU, with the totals that its allocator writes."""

    def __init__(self, total: int, reserved: int) -> None:
        self.events: list[Event] = []
        self._total, self._reserved = total * MIB, reserved * MIB
        self._places: dict[str, int] = {}

    def change(self, at: int, what: str, size: int) -> None:
        self._total += size * MIB
        address = self._places.setdefault(what, 1024 * MIB * (len(self._places) + 1))
        self.events.append(
            mark(at, size * MIB, address, self._total, device=0, reserved=max(self._reserved, self._total))
        )


def said(folder: Path, *jobs: Job) -> MemoryResult:
    for rank, job in enumerate(jobs):
        devices = [{"id": 0, "name": "a GPU", "totalGlobalMem": job.capacity * MIB}]
        trace = document(job.events(), rank=rank, world_size=len(jobs), deviceProperties=devices)
        (folder / f"rank{rank}.json").write_bytes(trace)
    return redline.memory(folder)


HEALTHY = Job(reserved=1)
FLAWED = {
    "RL-M02": (replace(HEALTHY, kept=3), 15),
    "RL-M03": (replace(HEALTHY, activations=60), 60),
    "RL-M04": (replace(HEALTHY, logits=30), 30),
    "RL-M05": (replace(HEALTHY, clears_late=True), 8),
    "RL-M06": (replace(HEALTHY, temporary=20), 20),
    "RL-M07": (replace(HEALTHY, reserved=100), 48),
    "RL-M10": (replace(HEALTHY, left_over=12), 12),
    "RL-M12": (replace(HEALTHY, capacity=1000), 0),
}
