"""The predicted step as timelines, one rank per stage of the pipeline: what Perfetto draws and `diagnose` accounts for.

A step can have millions of kernels. Where it has more than a viewer can hold, equal operators of all layers of a pass
become one. If that is not enough, each pass becomes one operator, and if not even that is, only some stages are kept,
whole. What was done is said in words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redline.plan.train.simulation.pass_work import EventKind
from redline.plan.train.simulation.schedule import (
    MicroBatchPass,
    Pass,
    SimulatedEvent,
    StageRun,
    has_chunks,
    layer_pass,
    layers_of_stage,
)
from redline.plan.train.simulation.stage_timeline import spans_of_stage, stage_timeline
from redline.plan.train.simulation.timeline_drawing import Drawing
from redline.plan.train.time.step_costs import StepCosts
from redline.timeline.timeline import Device, Metadata, Timeline

# --- simulation -------------------------------------------------------------------------------------------------------
# The closed forms of `step` say how long a step takes; this says what happens when, and a test holds them together.
# One rank stands for all of its stage: they do the same at the same time.


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """All events of one rank per stage, in the order in which each stage takes them up."""

    step_s: float
    stages: tuple[tuple[SimulatedEvent, ...], ...]


def simulate(costs: StepCosts[float], *, layers_together: bool = False) -> Simulated:
    """The step of one layout. Layers of a pass can be taken as one, for fewer events."""
    count = int(costs.stages)
    stages = [StageRun(costs, number, layers_together=layers_together) for number in range(count)]
    _play(stages, count, int(costs.chunks) if has_chunks(costs) else 1)
    ready_s = max(stage.reduced() for stage in stages)
    for stage in stages:
        stage.finish(ready_s)
    return Simulated(step_s=max(stage.now_s for stage in stages), stages=tuple(tuple(stage.events) for stage in stages))


def _play(runs: list[StageRun], stages: int, chunks: int) -> None:
    """Let every stage work until its next input is missing, and again, until all is done."""
    ended: dict[tuple[Pass, int, int], float] = {}
    waiting = True
    while waiting:
        waiting = False
        for run in runs:
            for work in run.upcoming():
                place = work.chunk * stages + run.number
                source = _source(work, place, stages * chunks)
                sent_s = ended.get((work.kind, source, work.micro_batch)) if source is not None else None
                if source is not None and sent_s is None:
                    waiting = True
                    break
                ended[work.kind, place, work.micro_batch] = run.do(work, sent_s)


def _source(work: MicroBatchPass, place: int, places: int) -> int | None:
    """The chunk of layers, counted over all stages, whose result a pass waits for; none: it has all it needs."""
    if work.kind is Pass.FORWARD:
        return place - 1 if place > 0 else None
    return place + 1 if work.kind is Pass.BACKWARD and place < places - 1 else None


MOST_EVENTS = 300_000
"""Of all stages together: operators, launches and what they launch."""
MADE_BY = "predicted by redline plan"
_ONCE_PER_PASS = 4  # a send, a receive, the head, the host


@dataclass(frozen=True, kw_only=True)
class PredictedStep:
    """One timeline per stage that is kept."""

    timelines: tuple[Timeline, ...]
    stages: int
    """Of the pipeline, whether kept or not."""
    layers_together: bool
    """Whether the layers of a pass were put together, because there are too many kernels to draw each."""
    passes_together: bool
    """Whether everything that a pass does was put together as well."""
    stretched: float
    """By how much the simulated step was scaled to last as long as the closed form says: near 1."""

    def notes(self, devices: int) -> Iterator[str]:
        """What differs from a trace of the whole job."""
        yield f"predicted, not measured: one step of {devices:,} devices, one rank for each stage of the pipeline"
        if self.passes_together:
            yield "each pass is drawn as one matmul of as many FLOPs, because its operators are too many to draw"
        elif self.layers_together:
            yield "equal operators of all layers of a pass are drawn as one, because they are too many to draw"
        if len(self.timelines) < self.stages:
            kept = f"{len(self.timelines)} of {self.stages} stages are drawn"
            yield f"{kept}, because there are too many kernels to draw all"


def predicted_step(
    costs: StepCosts[float],
    step_s: float,
    drawing: Drawing,
    *,
    device: str = "",
    memory_bytes: int = 0,
    most_events: int = MOST_EVENTS,
) -> PredictedStep:
    """The step of one layout: `step_s` is what the closed form predicts for it."""
    layers_together = events_in(costs, drawing, layers_together=False) > most_events
    simulated = simulate(costs, layers_together=layers_together)
    passes_together = layers_together and sum(_counts(simulated, drawing)) > most_events
    drawing = drawing.coarse() if passes_together else drawing
    kept = _kept_stages(_counts(simulated, drawing), most_events)
    ns_per_s = 1e9 * step_s / simulated.step_s
    about = Metadata(
        devices=(Device(id=0, name=device, memory_bytes=memory_bytes),),
        backend="nccl",
        world_size=len(simulated.stages),
        recorded=("shapes",),
        synthetic=MADE_BY,
    )
    step_ns = round(1e9 * step_s)
    timelines = tuple(
        stage_timeline(spans_of_stage(simulated.stages[stage], drawing, ns_per_s, step_ns), stage, about)
        for stage in kept
    )
    return PredictedStep(
        timelines=timelines,
        stages=len(simulated.stages),
        layers_together=layers_together,
        passes_together=passes_together,
        stretched=step_s / simulated.step_s,
    )


def events_in(costs: StepCosts[float], drawing: Drawing, *, layers_together: bool) -> int:
    """About how many events all stages have."""
    each_layer = 0
    for kind in (Pass.FORWARD, Pass.BACKWARD):
        one_layer = layer_pass(costs, kind).times(1.0)
        each_layer += sum(drawing.spans(activity) for activity, _ in one_layer.parts)
        each_layer += drawing.spans(EventKind.GATHER) if one_layer.gather_s > 0 else 0
        each_layer += drawing.spans(EventKind.SCATTER) if one_layer.scatter_s > 0 else 0
    layers = sum(layers_of_stage(costs, stage) for stage in range(int(costs.stages)))
    passes = 2 * costs.stages * costs.chunks
    per_micro_batch = (passes / 2 if layers_together else layers) * each_layer + passes * _ONCE_PER_PASS
    return int(costs.micro_batches * per_micro_batch)


def _counts(simulated: Simulated, drawing: Drawing) -> list[int]:
    """About how many events each stage has."""
    return [sum(drawing.spans(event.activity) for event in events) for events in simulated.stages]


def _kept_stages(events: Sequence[int], most_events: int) -> list[int]:
    """All, or as many as fit, spread over the pipeline; at least the one with the most to do."""
    affordable = most_events // max(events)
    if affordable >= len(events) or sum(events) <= most_events:
        return list(range(len(events)))
    if affordable <= 1:
        return [max(range(len(events)), key=events.__getitem__)]
    return sorted({round(place * (len(events) - 1) / (affordable - 1)) for place in range(affordable)})
