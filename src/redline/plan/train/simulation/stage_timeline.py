"""The spans of one stage as a Timeline: columns, lanes, launches linked to what they launched."""

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from redline.plan.train.simulation.pass_work import EventKind, SimulatedCall
from redline.plan.train.simulation.pipeline_messages import STAGES, SimulatedMessage
from redline.plan.train.simulation.schedule import SimulatedEvent
from redline.plan.train.simulation.timeline_drawing import KERNELS, Drawing
from redline.timeline.nesting import parents_of
from redline.timeline.table import I32
from redline.timeline.timeline import (
    BUSY_KINDS,
    NESTED_KINDS,
    NONE,
    Communications,
    DeviceWork,
    EventRecords,
    Kind,
    Lane,
    MemoryMarks,
    Metadata,
    Operators,
    PythonCalls,
    RecordedWaits,
    RuntimeCalls,
    Source,
    Spans,
    StepWindows,
    Timeline,
    TimelineOrigin,
)

# --- spans of a device ------------------------------------------------------------------------------------------------


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
    """The name of a stream after what runs on it."""
    partner, receives = divmod(stream - _FIRST_PARTNER_STREAM, 2)
    fixed = {
        _KERNEL_STREAM: "kernels",
        _LAYER_STREAM: "traffic inside layers",
        _BESIDE_STREAM: "traffic of copies",
        _MEETING_STREAM: "all stages meet",
    }
    return fixed.get(stream, f"from stage {partner}" if receives else f"to stage {partner}")


def device_spans(events: Sequence[SimulatedEvent], drawing: Drawing, ns_per_s: float) -> list[SimulatedSpan]:
    """Spans of a stage's device, in order of start."""
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


# --- spans of the host ------------------------------------------------------------------------------------------------


CALL_NS = 500
"""How long a launch and its operator are drawn. What the host really needs shows in the gaps between kernels."""
_BEFORE_LAUNCH_NS = 100
LAUNCH = "cudaLaunchKernel"
STEP = "ProfilerStep#0"
HOST_REGION = "what the host does between launches"
OPTIMIZER_REGION = "Optimizer.step#predicted"

_PASSES = {
    EventKind.FORWARD: "forward, micro-batch {}",
    EventKind.HEAD_FORWARD: "forward, micro-batch {}",
    EventKind.RECOMPUTE: "backward, micro-batch {}",
    EventKind.BACKWARD: "backward, micro-batch {}",
    EventKind.HEAD_BACKWARD: "backward, micro-batch {}",
    EventKind.WEIGHTS: "weight gradients, micro-batch {}",
    EventKind.OPTIMIZER: OPTIMIZER_REGION,
}
_NODES = {EventKind.HEAD_BACKWARD: "Head", EventKind.WEIGHTS: "LayerWeights"}
_NODE = "autograd::engine::evaluate_function: {}Backward"


_DEPTH = {Kind.ANNOTATION: 0, Kind.OPERATOR: 1, Kind.RUNTIME: 3}


def spans_of_stage(
    events: Sequence[SimulatedEvent], drawing: Drawing, ns_per_s: float, step_ns: int
) -> list[SimulatedSpan]:
    """All spans of a stage in order of start, of those that start together the longest first, then the outer."""
    devices = device_spans(events, drawing, ns_per_s)
    spans = [*host_spans(devices, events, ns_per_s, step_ns), *devices]
    return sorted(spans, key=lambda span: (span.start_ns, -span.end_ns, _depth(span)))


def _depth(span: SimulatedSpan) -> int:
    return _DEPTH.get(span.kind, 4) + (span.kind is Kind.OPERATOR and not span.is_node)


def host_spans(
    devices: Sequence[SimulatedSpan], events: Sequence[SimulatedEvent], ns_per_s: float, step_ns: int
) -> list[SimulatedSpan]:
    """Spans of the host's thread; `devices` are in order of start, and are launched in that order."""
    launches = list(_launches(devices))
    hosts = [
        (round(simulated_event.start_s * ns_per_s), round(simulated_event.end_s * ns_per_s))
        for simulated_event in events
        if simulated_event.activity is EventKind.HOST
    ]
    return [
        SimulatedSpan(0, step_ns, Kind.ANNOTATION, STEP),
        *_regions(devices, launches, hosts),
        *_operator_spans(devices, launches),
        *(_within(launch) if device.call else launch for device, launch in zip(devices, launches, strict=True)),
    ]


def _launches(devices: Sequence[SimulatedSpan]) -> list[SimulatedSpan]:
    """Each just before what it launches starts, one after the other."""
    launches = []
    next_ns = devices[-1].start_ns if devices else 0
    for span in reversed(devices):
        end_ns = min(span.start_ns, next_ns)
        next_ns = max(end_ns - CALL_NS, 0)
        launches.append(SimulatedSpan(next_ns, end_ns, Kind.RUNTIME, LAUNCH, NONE, span.correlation))
    return launches[::-1]


def _within(launch: SimulatedSpan) -> SimulatedSpan:
    """A launch inside its operator, which takes its place."""
    room_ns = min(_BEFORE_LAUNCH_NS, (launch.end_ns - launch.start_ns) // 4)
    return launch._replace(start_ns=launch.start_ns + room_ns, end_ns=launch.end_ns - room_ns)


def _operator_spans(devices: Sequence[SimulatedSpan], launches: Sequence[SimulatedSpan]) -> Iterator[SimulatedSpan]:
    """Around each launch; those of a layer's backward pass inside a node of autograd.

    Operators of the forward pass and the node of their gradient have the same number. What is computed again has one of
    its own, inside the node.
    """
    numbers: dict[tuple[int, ...], int] = {}
    nodes: dict[tuple[int, int, str], SimulatedSpan] = {}
    for device, launch in zip(devices, launches, strict=True):
        call, event = device.call, device.event
        if call is None or event is None:
            continue
        part = (event.micro_batch, event.layer)
        again = event.activity is EventKind.RECOMPUTE
        number = numbers.setdefault((*part, 1) if again else part, len(numbers))
        sequence = number if again or not event.backward else NONE
        operator = launch._replace(kind=Kind.OPERATOR, name=call.name, call=call, sequence=sequence)
        if event.backward:
            name = _NODE.format(_NODES.get(event.activity, "Layer"))
            before = nodes.get((*part, name))
            start_ns = before.start_ns if before else launch.start_ns
            nodes[(*part, name)] = SimulatedSpan(
                start_ns,
                launch.end_ns,
                Kind.OPERATOR,
                name,
                sequence=numbers.setdefault(part, len(numbers)),
                is_node=True,
            )
        yield operator
    yield from nodes.values()


def _regions(
    devices: Sequence[SimulatedSpan], launches: Sequence[SimulatedSpan], hosts: Sequence[tuple[int, int]]
) -> Iterator[SimulatedSpan]:
    """Passes by micro-batch, the optimizer, and where the device waits for the host; none crosses another."""
    simulated_spans = [SimulatedSpan(start_ns, end_ns, Kind.ANNOTATION, HOST_REGION) for start_ns, end_ns in hosts]
    current: SimulatedSpan | None = None
    for device, launch in zip(devices, launches, strict=True):
        event = device.event
        if event is None or event.activity not in _PASSES:
            continue
        name = _PASSES[event.activity].format(event.micro_batch)
        if current is not None and current.name == name:
            current = current._replace(end_ns=device.end_ns)
            simulated_spans[-1] = current
        else:
            current = SimulatedSpan(launch.start_ns, device.end_ns, Kind.ANNOTATION, name)
            simulated_spans.append(current)
    simulated_spans.sort(key=lambda span: span.start_ns)
    for place, span in enumerate(simulated_spans):
        next_ns = simulated_spans[place + 1].start_ns if place + 1 < len(simulated_spans) else span.end_ns
        yield span._replace(end_ns=max(min(span.end_ns, next_ns), span.start_ns))


def stage_timeline(spans: list[SimulatedSpan], stage: int, about: Metadata) -> Timeline:
    """`spans` are in order of start; the rank is the number of the stage."""
    streams = sorted({span.stream for span in spans} - {NONE})
    words = _Words()
    every, communications = _spans(spans, streams, words), _communications(spans, stage, about.world_size, words)
    at = np.flatnonzero(every.name == words[STEP])
    operators, calls = _operators(spans, words), _calls(spans)
    return Timeline(
        origin=TimelineOrigin.PREDICTED,
        rank=stage,
        rank_origin="stage of the pipeline",
        zero_ns=0,
        texts=tuple(words),
        lanes=(Lane(process="host", thread="1", label="host"), *(_lane(stream) for stream in streams)),
        spans=every,
        operators=operators,
        calls=calls,
        device_work=_device_work(spans, calls),
        waits=RecordedWaits.empty(),
        event_records=EventRecords.empty(),
        communications=communications,
        python_calls=PythonCalls.empty(),
        memory=MemoryMarks.empty(),
        steps=StepWindows(start_ns=every.start_ns[at], end_ns=every.end_ns[at], label=every.name[at]),
        step_anchor="ProfilerStep",
        metadata=about,
        source=Source(path=about.synthetic),
    )


class _Words(dict[str, int]):
    """Numbers for texts, in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _lane(stream: int) -> Lane:
    return Lane(process="0", thread=str(stream), label=stream_name(stream), device=0, stream=stream)


def _spans(spans: list[SimulatedSpan], streams: list[int], words: _Words) -> Spans:
    lane_of = {stream: number for number, stream in enumerate([NONE, *streams])}
    start_ns, end_ns = (np.array([span[place] for span in spans], np.int64) for place in (0, 1))
    kind = np.array([span.kind for span in spans], np.uint8)
    parent = _none(len(spans))
    nested = np.flatnonzero(np.isin(kind, np.array(NESTED_KINDS, np.uint8)))
    inner, _ = parents_of(start_ns[nested], end_ns[nested])
    parent[nested] = np.where(inner == NONE, NONE, nested[inner])
    return Spans(
        start_ns=start_ns,
        dur_ns=end_ns - start_ns,
        kind=kind,
        name=np.array([words[span.name] for span in spans], np.int32),
        lane=np.array([lane_of[span.stream] for span in spans], np.int32),
        parent=parent,
    )


def _operators(spans: list[SimulatedSpan], words: _Words) -> Operators:
    rows = [row for row, span in enumerate(spans) if span.kind is Kind.OPERATOR]
    chosen = [spans[row] for row in rows]
    texts = {
        name: np.array([words[getattr(span.call, name)] if span.call else NONE for span in chosen], np.int32)
        for name in ("shapes", "dtypes", "values")
    }
    return Operators(
        row=np.array(rows, np.int32),
        external_id=np.array([span.correlation for span in chosen], np.int64),
        sequence=np.array([span.sequence for span in chosen], np.int64),
        forward_thread=np.array([int(span.is_node) for span in chosen], np.int64),
        **texts,
        strides=_none(len(rows)),
        site=_none(len(rows)),
        forward=_none(len(rows)),
    )


def _calls(spans: list[SimulatedSpan]) -> RuntimeCalls:
    rows = [row for row, span in enumerate(spans) if span.kind is Kind.RUNTIME]
    correlation = np.array([spans[row].correlation for row in rows], np.int64)
    return RuntimeCalls(row=np.array(rows, np.int32), correlation=correlation, external_id=correlation)


def _device_work(spans: list[SimulatedSpan], calls: RuntimeCalls) -> DeviceWork:
    rows = [row for row, span in enumerate(spans) if span.kind in BUSY_KINDS]
    call_of = dict(zip(calls.correlation.tolist(), calls.row.tolist(), strict=True))
    operator_of = {
        span.correlation: row for row, span in enumerate(spans) if span.kind is Kind.OPERATOR and span.call is not None
    }
    correlation = [spans[row].correlation for row in rows]
    unknown = _none(len(rows))
    return DeviceWork(
        row=np.array(rows, np.int32),
        correlation=np.array(correlation, np.int64),
        external_id=np.array(correlation, np.int64),
        bytes=np.array([spans[row].bytes for row in rows], np.int64),
        grid=unknown,
        block=unknown,
        graph_node=unknown,
        launch=np.array([call_of[number] for number in correlation], np.int32),
        operator=np.array([operator_of.get(number, NONE) for number in correlation], np.int32),
        annotation=unknown,
    )


def _communications(spans: list[SimulatedSpan], stage: int, stages: int, words: _Words) -> Communications:
    """Of groups, only the one of all stages has several members in the file."""
    rows = [row for row, span in enumerate(spans) if span.message is not None]
    sent = [(span.message, span.share, span.event) for row in rows for span in (spans[row],)]
    messages = [message for message, _, _ in sent if message is not None]
    elements = [message.elements(share) for message, share, _ in sent if message is not None]
    partners = [event.partner if event is not None else NONE for _, _, event in sent]
    all_stages = words[json.dumps(list(range(stages)))]
    groups = [message.group if message.group == STAGES else f"{message.group} of stage {stage}" for message in messages]
    collectives = [message.collective for message in messages]
    return Communications(
        row=np.array(rows, np.int32),
        collective=np.array([words[collective] for collective in collectives], np.int32),
        in_elements=np.array([size for size, _ in elements], np.int64),
        out_elements=np.array([size for _, size in elements], np.int64),
        dtype=np.array([words[message.dtype] for message in messages], np.int32),
        group=np.array([words[group] for group in groups], np.int32),
        group_ranks=np.array([all_stages if group == STAGES else NONE for group in groups], np.int32),
        group_size=np.array([message.members for message in messages], np.int32),
        source=_partners(collectives, partners, "receive"),
        destination=_partners(collectives, partners, "send"),
        sequence=_none(len(rows)),
        described=np.ones(len(rows), np.uint8),
    )


def _partners(collectives: list[str], partners: list[int], meant: str) -> I32:
    both = zip(collectives, partners, strict=True)
    return np.array([partner if collective == meant else NONE for collective, partner in both], np.int32)


def _none(count: int) -> I32:
    return np.full(count, NONE, np.int32)
