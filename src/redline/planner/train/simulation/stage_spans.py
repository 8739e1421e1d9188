"""Events of one stage as spans: kernels and traffic on streams of a device, and what the host does for them."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from redline.planner.train.simulation.activity import EventKind
from redline.planner.train.simulation.calls import SimulatedCall
from redline.planner.train.simulation.pipeline_messages import SimulatedMessage
from redline.planner.train.simulation.stage_run import SimulatedEvent
from redline.planner.train.simulation.timeline_drawing import KERNELS, Drawing
from redline.timeline.timeline import NONE, Kind

_TRAFFIC = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "all_to_all": "AllToAll",
    "send": "Send",
    "receive": "Recv",
}
"""NCCL's words for ours."""
_KERNEL_STREAM, _LAYER_STREAM, _BESIDE_STREAM, _MEETING_STREAM, _FIRST_PARTNER_STREAM = 7, 13, 17, 20, 21
_BESIDE = (EventKind.GATHER, EventKind.SCATTER, EventKind.REDUCE, EventKind.BROADCAST)
_EXCHANGES = (EventKind.SEND, EventKind.RECEIVE)
_HIDES = (EventKind.TENSOR, EventKind.CONTEXT)
"""Traffic of a layer of which a part runs behind the layer's kernels."""


class SimulatedSpan(NamedTuple):
    """A span to be; times in nanoseconds since the step began."""

    start_ns: int
    end_ns: int
    kind: Kind
    name: str
    stream: int = NONE
    """NONE: on the thread of the host."""
    correlation: int = NONE
    """Of a launch, of what was launched, and of the operator around it."""
    event: SimulatedEvent | None = None
    """What is drawn, on the device."""
    call: SimulatedCall | None = None
    message: SimulatedMessage | None = None
    share: float = 1.0
    """Of the message."""
    bytes: int = NONE
    sequence: int = NONE
    """Of operators: number of the part of the forward pass that they are, or the gradient of."""
    is_node: bool = False
    """Of operators: a part of the backward pass."""


def stream_name(stream: int) -> str:
    """What runs on a stream."""
    partner, receives = divmod(stream - _FIRST_PARTNER_STREAM, 2)
    fixed = {
        _KERNEL_STREAM: "kernels",
        _LAYER_STREAM: "traffic inside layers",
        _BESIDE_STREAM: "traffic of copies",
        _MEETING_STREAM: "all stages meet",
    }
    return fixed.get(stream, f"from stage {partner}" if receives else f"to stage {partner}")


def device_spans(events: Sequence[SimulatedEvent], drawing: Drawing, ns_per_s: float) -> list[SimulatedSpan]:
    """What a stage's device does, in order of start."""
    spans = list(_one_at_a_time(list(_on_device(events, drawing, ns_per_s))))
    spans.sort(key=_order)
    return [span._replace(correlation=number) for number, span in enumerate(spans, start=1)]


def _order(span: SimulatedSpan) -> tuple[int, int, int]:
    return span.start_ns, span.end_ns, span.stream


def _on_device(events: Sequence[SimulatedEvent], drawing: Drawing, ns_per_s: float) -> Iterator[SimulatedSpan]:
    began_s: dict[tuple[int, int, bool], float] = {}  # when kernels of a layer began
    free_s = 0.0  # when the stream of its traffic is free
    for event in events:
        if event.activity in KERNELS:
            began_s.setdefault((event.micro_batch, event.layer, event.backward), event.start_s)
            yield from _kernels(event, drawing, ns_per_s)
        elif event.activity in _HIDES:
            behind_s = max(began_s.get((event.micro_batch, event.layer, event.backward), event.start_s), free_s)
            hidden_s = max(drawing.takes_s(event) - (event.end_s - event.start_s), 0.0)
            start_s = min(max(event.start_s - hidden_s, behind_s), event.start_s)
            yield from _traffic(event, drawing, start_s, ns_per_s)
        elif event.activity is not EventKind.HOST:
            yield from _traffic(event, drawing, event.start_s, ns_per_s)
        if _stream(event) == _LAYER_STREAM:
            free_s = event.end_s


def _kernels(event: SimulatedEvent, drawing: Drawing, ns_per_s: float) -> Iterator[SimulatedSpan]:
    start_ns, end_ns = round(event.start_s * ns_per_s), round(event.end_s * ns_per_s)
    if event.activity is EventKind.OFFLOAD:
        name, size = KERNELS[event.activity], drawing.offloaded_bytes
        copied_ns = min(start_ns + round(drawing.offloading_s * ns_per_s), end_ns)
        yield SimulatedSpan(start_ns, copied_ns, Kind.COPY, name, _KERNEL_STREAM, event=event, bytes=size)
        return
    calls = drawing.calls(event)
    if not calls:
        yield SimulatedSpan(start_ns, end_ns, Kind.KERNEL, KERNELS[event.activity], _KERNEL_STREAM, event=event)
        return
    for call, (begin_ns, until_ns) in zip(
        calls, _divided(start_ns, end_ns, [call.seconds for call in calls]), strict=True
    ):
        yield SimulatedSpan(begin_ns, until_ns, Kind.KERNEL, call.kernel, _KERNEL_STREAM, event=event, call=call)


def _traffic(event: SimulatedEvent, drawing: Drawing, start_s: float, ns_per_s: float) -> Iterator[SimulatedSpan]:
    messages, share = drawing.messages(event)
    edges = _divided(
        round(start_s * ns_per_s), round(event.end_s * ns_per_s), [message.seconds for message in messages]
    )
    for message, (begin_ns, until_ns) in zip(messages, edges, strict=True):
        name = f"ncclDevKernel_{_TRAFFIC[message.collective]} ({event.activity.name.lower()})"
        yield SimulatedSpan(
            begin_ns,
            until_ns,
            Kind.COMMUNICATION,
            name,
            _stream(event),
            event=event,
            message=message,
            share=share,
        )


def _divided(start_ns: int, end_ns: int, weights: Sequence[float]) -> Iterator[tuple[int, int]]:
    """A stretch of time in parts as long as their weights, without a nanosecond between them."""
    total = sum(weights) or 1.0
    begin_ns = start_ns
    for number, reached in enumerate(accumulate(weights), start=1):
        is_last = number == len(weights)
        until_ns = end_ns if is_last else start_ns + round((end_ns - start_ns) * reached / total)
        yield begin_ns, until_ns
        begin_ns = until_ns


def _stream(event: SimulatedEvent) -> int:
    if event.activity in KERNELS:
        return _KERNEL_STREAM
    if event.activity in _EXCHANGES:
        return _FIRST_PARTNER_STREAM + 2 * event.partner + (event.activity is EventKind.RECEIVE)
    if event.activity is EventKind.MEET:
        return _MEETING_STREAM
    return _BESIDE_STREAM if event.activity in _BESIDE else _LAYER_STREAM


def _one_at_a_time(spans: list[SimulatedSpan]) -> Iterator[SimulatedSpan]:
    """A stream runs one thing at a time: what would begin before the end of another begins with it."""
    free_ns: dict[int, int] = {}
    for span in sorted(spans, key=_order):
        start_ns = max(span.start_ns, free_ns.get(span.stream, 0))
        if span.end_ns > start_ns:
            free_ns[span.stream] = span.end_ns
            yield span._replace(start_ns=start_ns)
