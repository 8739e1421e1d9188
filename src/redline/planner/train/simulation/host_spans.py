"""What the host does in a predicted step: operators that launch kernels, nodes of the backward pass, named regions."""

from collections.abc import Iterator, Sequence

from redline.planner.train.simulation.activity import EventKind
from redline.planner.train.simulation.stage_run import SimulatedEvent
from redline.planner.train.simulation.stage_spans import SimulatedSpan, device_spans
from redline.planner.train.simulation.timeline_drawing import Drawing
from redline.timeline.timeline import NONE, Kind

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
    """On the thread of the host; `devices` are in order of start, and are launched in that order."""
    launches = list(_launches(devices))
    hosts = [
        (round(simulated_event.start_s * ns_per_s), round(simulated_event.end_s * ns_per_s))
        for simulated_event in events
        if _is_host(simulated_event)
    ]
    return [
        SimulatedSpan(0, step_ns, Kind.ANNOTATION, STEP),
        *_regions(devices, launches, hosts),
        *_operators(devices, launches),
        *(_within(launch) if device.call else launch for device, launch in zip(devices, launches, strict=True)),
    ]


def _is_host(event: SimulatedEvent) -> bool:
    return event.activity is EventKind.HOST


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


def _operators(devices: Sequence[SimulatedSpan], launches: Sequence[SimulatedSpan]) -> Iterator[SimulatedSpan]:
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
