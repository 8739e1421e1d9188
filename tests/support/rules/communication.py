"""A rank that computes, goes forward and backward, and exchanges."""

from collections.abc import Callable, Sequence
from typing import Any

from redline.findings.finding import Finding
from redline.hardware.machine import Machine
from tests.support.events import Event, collective, document, launch, op, region
from tests.support.rules.matching import found, launched, step

BACKWARD_THREAD = 2
STEP_US = 1000.0
AUTOGRAD = {"Sequence number": 1, "Fwd thread id": 0}


def forward(ts: float, dur: float) -> Event:
    return op("aten::mm", ts, dur, **AUTOGRAD)


def node(ts: float, dur: float) -> Event:
    return op("autograd::engine::evaluate_function: MmBackward0", ts, dur, tid=BACKWARD_THREAD)


def exchanged(
    ts: float, dur: float, number: int, *, at: float, name: str = "allreduce", elements: int = 1024, **args: object
) -> list[Event]:
    """A collective that the host launches at `at` and the device runs at `ts`."""
    described = {"correlation": number, **{key.replace("_", " "): value for key, value in args.items()}}
    return [
        launch(at, number, dur=1, tid=BACKWARD_THREAD),
        collective(ts, dur, name=name, elements=elements, args=described),
    ]


def base(computing_us: float = 600) -> list[Event]:
    """A step of 1000 us: a kernel from 100 us on, a forward pass until 300 us, a backward pass until 500 us."""
    return [
        step(0, 0, STEP_US),
        *launched("gemm", 100, computing_us - 100, 1, at=50),
        forward(60, 200),
        node(300, 200),
        region("Optimizer.step#SGD.step", 900, 50),
    ]


def job(events: Callable[[int], Sequence[Event]], ranks: int = 2, **metadata: object) -> list[bytes]:
    """One document per rank."""
    return [document(events(rank), rank=rank, world_size=ranks, **metadata) for rank in range(ranks)]


def alike(events: Sequence[Event], ranks: int = 2, **metadata: object) -> list[bytes]:
    return job(lambda _: events, ranks, **metadata)


def alone_ns(documents: Sequence[bytes], code: str, machine: Machine | None = None) -> float:
    """What the finding would claim of the average step as the only one; 0 where there is none."""
    finding = found(*documents, machine=machine).get(code)
    return finding.alone_ns if finding is not None else 0.0


def values(finding: Finding) -> dict[str, Any]:
    """Of all its evidence."""
    return {name: value for one in finding.evidence for name, value in one.values.items()}


def messages(finding: Finding) -> str:
    return " ".join(one.message for one in finding.evidence)


ON_DEVICE = "Memcpy DtoD (Device -> Device)"


def sharded(
    *,
    gathered: tuple[int, int] = (1024, 1024),
    scatter_at: float = 450,
    group: str = "[0, 1]",
    computing_us: float = 400,
) -> list[Event]:
    """All-gathers in the forward pass (exposed for 40 us) and in the backward pass (80 us), gradients scattered."""
    return [
        *base(computing_us),
        *exchanged(60, 60, 2, at=55, name="_allgather_base", elements=gathered[0]),
        *exchanged(400, 80, 3, at=350, name="_allgather_base", elements=gathered[1]),
        *exchanged(500, 10, 4, at=scatter_at, name="_reduce_scatter_base", Process_Group_Ranks=group),
    ]


def late(rank: int, *, after_us: Sequence[float]) -> list[Event]:
    """Steps of 1000 us with an all-reduce until 900 us; rank 1 computes longer before it, so long in each step."""
    events: list[Event] = []
    for number, extra in enumerate(after_us):
        begin = number * STEP_US
        computing = 200 + (extra if rank else 0)
        events += [step(number, begin, STEP_US), forward(begin, 10), node(begin + 20, 60)]
        events += launched("gemm", begin + 50, computing, 10 * number + 1, at=begin + 10)
        events += exchanged(begin + 50 + computing, 850 - computing, 10 * number + 2, at=begin + 30)
    return events
