"""Events of one stage as spans: kernels and traffic on streams of a device, their launches on a thread of the host."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from redline.cost.train.activity import Activity
from redline.cost.train.stage_run import Event
from redline.timeline.timeline import NONE, Kind

CALL_NS = 500
"""How long a launch is drawn. What the host really needs shows in the gaps between kernels."""
LAUNCH = "cudaLaunchKernel"
STEP = "ProfilerStep#0"
STAGES = "stages"
"""The group of one rank per stage."""

_KERNELS = {
    Activity.FORWARD: "forward",
    Activity.RECOMPUTE: "recompute",
    Activity.BACKWARD: "backward",
    Activity.WEIGHTS: "weight gradients",
    Activity.HEAD_FORWARD: "logits and loss",
    Activity.HEAD_BACKWARD: "logits and loss, backward",
    Activity.OPTIMIZER: "optimizer",
    Activity.OFFLOAD: "Memcpy HtoD (offloaded optimizer)",
}
_TRAFFIC = {
    Activity.TENSOR: ("all_reduce", "AllReduce", "tensor"),
    Activity.CONTEXT: ("all_gather", "AllGather", "context"),
    Activity.EXPERT: ("all_to_all", "AllToAll", "expert"),
    Activity.GATHER: ("all_gather", "AllGather", "data"),
    Activity.SCATTER: ("reduce_scatter", "ReduceScatter", "data"),
    Activity.REDUCE: ("all_reduce", "AllReduce", "data"),
    Activity.BROADCAST: ("all_gather", "AllGather", "data"),
    Activity.SEND: ("send", "Send", STAGES),
    Activity.RECEIVE: ("receive", "Recv", STAGES),
    Activity.MEET: ("all_reduce", "AllReduce", STAGES),
}
"""Our word for the collective, NCCL's, and the group."""
_PASSES = {
    Activity.FORWARD: "forward",
    Activity.RECOMPUTE: "backward",
    Activity.BACKWARD: "backward",
    Activity.WEIGHTS: "weight gradients",
}
_KERNEL_STREAM, _LAYER_STREAM, _BESIDE_STREAM, _MEETING_STREAM, _FIRST_PARTNER_STREAM = 7, 13, 17, 20, 21
_BESIDE = (Activity.GATHER, Activity.SCATTER, Activity.REDUCE, Activity.BROADCAST)
_EXCHANGES = (Activity.SEND, Activity.RECEIVE)


class Span(NamedTuple):
    """A span to be; times in nanoseconds since the step began."""

    start_ns: int
    end_ns: int
    kind: Kind
    name: str
    stream: int = NONE
    """NONE: on the thread of the host."""
    correlation: int = NONE
    """Of a launch, and of what was launched."""
    collective: str = ""
    group: str = ""
    partner: int = NONE


def spans_of_stage(events: Sequence[Event], ns_per_s: float, step_ns: int) -> list[Span]:
    """All spans of a stage in order of start, of those that start together the longest first."""
    devices = sorted(_one_at_a_time([_on_device(each, ns_per_s) for each in events if each.activity != Activity.HOST]))
    devices = [span._replace(correlation=number) for number, span in enumerate(devices, start=1)]
    spans = [
        Span(0, step_ns, Kind.ANNOTATION, STEP),
        *devices,
        *_launches(devices),
        *_host_regions(events, ns_per_s),
    ]
    return sorted(spans, key=lambda span: (span.start_ns, -span.end_ns))


def _on_device(event: Event, ns_per_s: float) -> Span:
    start_ns, end_ns = round(event.start_s * ns_per_s), round(event.end_s * ns_per_s)
    if event.activity in _KERNELS:
        kind = Kind.COPY if event.activity is Activity.OFFLOAD else Kind.KERNEL
        return Span(start_ns, end_ns, kind, _KERNELS[event.activity], _KERNEL_STREAM)
    word, kernel, group = _TRAFFIC[event.activity]
    name = f"ncclDevKernel_{kernel} ({event.activity.name.lower()})"
    stream = _stream(event)
    return Span(start_ns, end_ns, Kind.COMMUNICATION, name, stream, NONE, word, group, event.partner)


def _stream(event: Event) -> int:
    if event.activity in _EXCHANGES:
        return _FIRST_PARTNER_STREAM + 2 * event.partner + (event.activity is Activity.RECEIVE)
    if event.activity is Activity.MEET:
        return _MEETING_STREAM
    return _BESIDE_STREAM if event.activity in _BESIDE else _LAYER_STREAM


def _one_at_a_time(spans: list[Span]) -> Iterator[Span]:
    """A stream runs one thing at a time: what would begin before the end of another begins with it."""
    free_ns: dict[int, int] = {}
    for span in sorted(spans):
        start_ns = max(span.start_ns, free_ns.get(span.stream, 0))
        if span.end_ns > start_ns:
            free_ns[span.stream] = span.end_ns
            yield span._replace(start_ns=start_ns)


def _launches(devices: list[Span]) -> Iterator[Span]:
    """Each just before what it launches starts, one after the other."""
    next_ns = devices[-1].start_ns if devices else 0
    for span in reversed(devices):
        end_ns = min(span.start_ns, next_ns)
        next_ns = max(end_ns - CALL_NS, 0)
        yield Span(next_ns, end_ns, Kind.RUNTIME, LAUNCH, NONE, span.correlation)


def _host_regions(events: Sequence[Event], ns_per_s: float) -> Iterator[Span]:
    """Passes by micro-batch, the optimizer, and where the device waits for the host."""
    passes: dict[tuple[str, int, int], tuple[float, float]] = {}
    for number, event in enumerate(events):
        start_s, end_s = event.start_s, event.end_s
        if event.activity in _PASSES:
            name = f"{_PASSES[event.activity]}, micro-batch {event.micro_batch}"
            key = (name, event.micro_batch, 0)
            passes[key] = (passes.get(key, (start_s, 0.0))[0], end_s)
        elif event.activity is Activity.OPTIMIZER:
            passes["Optimizer.step#predicted", NONE, 0] = (start_s, end_s)
        elif event.activity is Activity.HOST:
            passes["host", event.micro_batch, number] = (start_s, end_s)
    for (name, _, _), (start_s, end_s) in passes.items():
        yield Span(round(start_s * ns_per_s), round(end_s * ns_per_s), Kind.ANNOTATION, name)
