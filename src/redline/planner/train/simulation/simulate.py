"""One simulated step: when every stage of the pipeline computes, sends and waits.

The closed forms of `step` say how long a step takes; this says what happens when, and a test holds them together. One
rank stands for all of its stage: they do the same at the same time.
"""

from dataclasses import dataclass

from redline.planner.train.simulation.layer_pass import has_chunks
from redline.planner.train.simulation.schedule import MicroBatchPass, Pass
from redline.planner.train.simulation.stage_run import SimulatedEvent, StageRun
from redline.planner.train.time.step_costs import StepCosts


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
