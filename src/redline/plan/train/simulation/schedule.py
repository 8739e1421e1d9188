"""In which order a stage of a pipeline works through its micro-batches: forward, backward, gradients of weights."""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from redline.plan.train.simulation.pass_work import EventKind
from redline.plan.train.time.step_costs import WEIGHTS_HOST, StepCosts
from redline.plan.train.training_choices import PipelineSchedule


class Pass(IntEnum):
    """What a piece of work is."""

    FORWARD = 0
    BACKWARD = 1  # with zero-bubble schedules without the gradients of weights
    WEIGHTS = 2


class MicroBatchPass(NamedTuple):
    """One pass of one micro-batch through one chunk of layers."""

    kind: Pass
    chunk: int
    micro_batch: int


def work_order(
    schedule: PipelineSchedule, stages: int, chunks: int, micro_batches: int, stage: int
) -> list[MicroBatchPass]:
    """All work of a stage. Chunks make it the interleaved 1F1B, whatever the schedule."""
    if chunks > 1:
        # In groups of as many micro-batches as there are stages; what is missing in the last group is left out.
        whole = -(-micro_batches // stages) * stages
        ahead = 2 * (stages - 1 - stage) + (chunks - 1) * stages
        order = _alternating(_forwards(stages, chunks, whole), chunks, ahead)
        return [work for work in order if work.micro_batch < micro_batches]
    forwards = _forwards(stages, 1, micro_batches)
    order = _alternating(forwards, 1, micro_batches if schedule == PipelineSchedule.GPIPE else stages - 1 - stage)
    return _with_weights_put_off(order, stage) if schedule == PipelineSchedule.ZERO_BUBBLE else order


def _forwards(stages: int, chunks: int, micro_batches: int) -> list[MicroBatchPass]:
    """A group of micro-batches through one chunk after the other, then the next group."""
    return [
        MicroBatchPass(Pass.FORWARD, chunk, micro_batch)
        for first in range(0, micro_batches, stages)
        for chunk in range(chunks)
        for micro_batch in range(first, min(first + stages, micro_batches))
    ]


def _alternating(forwards: list[MicroBatchPass], chunks: int, ahead: int) -> list[MicroBatchPass]:
    """Some forward passes ahead, then one forward and one backward, then the backward passes that are left."""
    order = forwards[:ahead]
    for number, (_, chunk, micro_batch) in enumerate(forwards):
        order += forwards[ahead + number : ahead + number + 1]
        order.append(MicroBatchPass(Pass.BACKWARD, chunks - 1 - chunk, micro_batch))
    return order


def _with_weights_put_off(order: list[MicroBatchPass], by: int) -> list[MicroBatchPass]:
    """Gradients of weights follow the backward pass of `by` micro-batches later (ZB-H1)."""
    weights = [work._replace(kind=Pass.WEIGHTS) for work in order if work.kind is Pass.BACKWARD]
    passes, done = [], 0
    for work in order:
        passes.append(work)
        if work.kind is Pass.BACKWARD:
            done += 1
            passes += weights[done - 1 - by : done - by] if done > by else []
    return passes + weights[max(len(weights) - by, 0) :]


# --- one pass through one layer ---------------------------------------------------------------------------------------


class LayerPass(NamedTuple):
    """Seconds. What is sent takes its turn after what is computed; gathers come before the pass, scatters after it."""

    parts: tuple[tuple[EventKind, float], ...]
    host_s: float
    gather_s: float = 0.0
    scatter_s: float = 0.0

    def times(self, weight: float) -> "LayerPass":
        """The same for several layers, without parts that take no time."""
        parts = tuple((activity, weight * seconds) for activity, seconds in self.parts if seconds > 0)
        return LayerPass(parts, weight * self.host_s, weight * self.gather_s, weight * self.scatter_s)


def layers_of_stage(costs: StepCosts[float], stage: int) -> float:
    """The last stage has what it is said to have. Of the others the first have one less, where not all are full."""
    if costs.stages <= 1:
        return costs.layers
    if stage == costs.stages - 1:
        return costs.layers_last_stage
    missing = (costs.stages - 1) * costs.layers_per_stage - (costs.layers - costs.layers_last_stage)
    return costs.layers_per_stage - (1 if stage < missing else 0)


def layers_of_chunks(costs: StepCosts[float], stage: int) -> list[float]:
    """Of every chunk of a stage. What the last stage lacks, its last chunk does, which has the head in its place; what
    another lacks, its first one does.
    """
    chunks = int(costs.chunks) if has_chunks(costs) else 1
    full, fewer = costs.layers_per_stage / chunks, costs.layers_per_stage - layers_of_stage(costs, stage)
    if costs.stages <= 1 or fewer > full:
        return [layers_of_stage(costs, stage) / chunks] * chunks
    layers = [full] * chunks
    layers[-1 if stage == costs.stages - 1 else 0] -= fewer
    return layers


def has_chunks(costs: StepCosts[float]) -> bool:
    return costs.chunks > 1 and costs.stages > 1


def puts_weights_off(costs: StepCosts[float]) -> bool:
    """Tell whether gradients of weights are computed in a pass of their own."""
    return costs.schedule == PipelineSchedule.ZERO_BUBBLE and costs.stages > 1 and not has_chunks(costs)


def layer_pass(costs: StepCosts[float], kind: Pass) -> LayerPass:
    if kind is Pass.FORWARD:
        return _forward(costs)
    apart = puts_weights_off(costs)
    if kind is Pass.BACKWARD:
        return _backward(costs, apart=apart)
    host_s = WEIGHTS_HOST * costs.host_backward_s if apart else 0.0
    return LayerPass(((EventKind.WEIGHTS, costs.weight_gradient_s),), host_s, 0.0, costs.scatter_s)


def _forward(costs: StepCosts[float]) -> LayerPass:
    parts = (
        (EventKind.FORWARD, costs.forward_s),
        (EventKind.CONTEXT, costs.context_forward_s),
        (EventKind.TENSOR, costs.tensor_forward_s),
        (EventKind.EXPERT, costs.expert_forward_s),
    )
    return LayerPass(parts, costs.host_forward_s, costs.gather_s)


def _backward(costs: StepCosts[float], *, apart: bool) -> LayerPass:
    later_s = costs.weight_gradient_s if apart else 0.0
    parts = (
        (EventKind.RECOMPUTE, costs.recompute_s),
        (EventKind.BACKWARD, costs.backward_s - later_s),
        (EventKind.EXPERT, costs.expert_backward_s),
        (EventKind.TENSOR, costs.tensor_backward_s),
        (EventKind.CONTEXT, costs.context_backward_s),
    )
    host_s = (1 - WEIGHTS_HOST if apart else 1.0) * costs.host_backward_s
    return LayerPass(parts, host_s, costs.gather_s, 0.0 if apart else costs.scatter_s)


# --- one stage at work ------------------------------------------------------------------------------------------------
# The kernels of a layer and the traffic inside it take turns on one stream. A second one gathers weights one layer
# ahead and scatters or reduces gradients. Of that, the share `overlap` may run while the device computes; the rest of
# a gather or scatter holds up the next layer, the rest of the reduction follows the last backward pass.


class SimulatedEvent(NamedTuple):
    """Something that a device does for a while."""

    activity: EventKind
    start_s: float
    end_s: float
    micro_batch: int
    """-1: of none."""
    layer: int
    """Of the stage, from 0; -1: of none."""
    partner: int = -1
    """The stage that something is sent to or received from."""
    backward: bool = False
    """Whether it is part of a backward pass."""


class _Chunk:
    """Layers that a pass goes through, and what it does in each of them."""

    def __init__(self, costs: StepCosts[float], before: float, layers: float, together: bool) -> None:
        """Where layers are not a whole number, or taken together, each stands for more or less than one."""
        self.first = round(before)
        self.layers = min(1, round(layers)) if together else round(layers)
        weight = layers / self.layers if self.layers else 0.0
        self.passes = {kind: layer_pass(costs, kind).times(weight) for kind in Pass}


class StageRun:
    """The state of one stage while a step is simulated."""

    def __init__(self, costs: StepCosts[float], number: int, *, layers_together: bool) -> None:
        self.number = number
        self.events: list[SimulatedEvent] = []
        self.now_s = 0.0
        self._beside_s = 0.0  # when the second stream is free
        self._costs = costs
        self._stages = int(costs.stages)
        self._chunks = int(costs.chunks) if has_chunks(costs) else 1
        self._micro_batches = round(costs.micro_batches)
        schedule = PipelineSchedule(int(costs.schedule)) if self._stages > 1 else PipelineSchedule.ONE_F_ONE_B
        self._order = work_order(schedule, self._stages, self._chunks, self._micro_batches, number)
        self._done = 0
        layers = layers_of_chunks(costs, number)
        self._parts = [
            _Chunk(costs, sum(layers[:chunk]), layers[chunk], layers_together) for chunk in range(len(layers))
        ]
        self._reduce_s = costs.reduce_s / sum(part.layers for part in self._parts)
        self._gradients_from = Pass.WEIGHTS if puts_weights_off(costs) else Pass.BACKWARD
        self._began_s = 0.0  # when the layer before began: the next one's weights are gathered from then on
        self._computed_s = 0.0  # when it ended
        self._unscattered_s = 0.0  # its gradients
        self._held_up = 1 - costs.overlap  # share of what runs beside that compute waits for

    def upcoming(self) -> Iterator[MicroBatchPass]:
        """The work that is left; what was asked for and not done is asked for again."""
        while self._done < len(self._order):
            yield self._order[self._done]

    def do(self, work: MicroBatchPass, sent_s: float | None) -> float:
        """One pass, whose input was sent then; gives when its result is there to be sent."""
        arrived_s = self._receive(work, sent_s) if sent_s is not None else 0.0
        head = self._is_last and work.chunk == self._chunks - 1
        if head and work.kind is Pass.BACKWARD:
            self._head(EventKind.HEAD_BACKWARD, self._costs.head_backward_s, work)
        self._layers(self._parts[work.chunk], work, arrived_s)
        if head and work.kind is Pass.FORWARD:
            self._head(EventKind.HEAD_FORWARD, self._costs.head_forward_s, work)
        self._send(work)
        self._done += 1
        return self.now_s

    def _layers(self, chunk: "_Chunk", work: MicroBatchPass, arrived_s: float) -> None:
        if not chunk.layers:
            self._wait_for_input(work, arrived_s, first=True)
        for index in range(chunk.layers):
            layer = chunk.first + (index if work.kind is Pass.FORWARD else chunk.layers - 1 - index)
            self._gather_and_scatter(chunk.passes[work.kind], work, layer)
            self._wait_for_input(work, arrived_s, first=index == 0)
            self._compute(chunk.passes[work.kind], work, layer)
            self._reduce(work)

    @property
    def _is_last(self) -> bool:
        return self.number == self._stages - 1

    def _receive(self, work: MicroBatchPass, sent_s: float) -> float:
        """A device that has nothing else to do waits in the receive."""
        arrived_s = sent_s + self._costs.send_s
        source = (self.number + (-1 if work.kind is Pass.FORWARD else 1)) % self._stages
        self._note(EventKind.RECEIVE, min(self.now_s, sent_s), arrived_s, work, partner=source)
        return arrived_s

    def _send(self, work: MicroBatchPass) -> None:
        step = 1 if work.kind is Pass.FORWARD else -1
        target = self.number + self._stages * work.chunk + step
        if work.kind is not Pass.WEIGHTS and 0 <= target < self._stages * self._chunks:
            end_s = self.now_s + self._costs.send_s
            self._note(EventKind.SEND, self.now_s, end_s, work, partner=target % self._stages)

    def _gather_and_scatter(self, of_layer: LayerPass, work: MicroBatchPass, layer: int) -> None:
        """The weights of this layer, asked for when the one before began; then the gradients of the one before."""
        if of_layer.gather_s > 0:
            begin_s = max(self._beside_s, self._began_s)
            if self._held_up > 0:  # the part that holds up this layer is in one piece with the part that hides
                begin_s = max(begin_s, self.now_s - (1 - self._held_up) * of_layer.gather_s)
            self._beside_s = begin_s + of_layer.gather_s
            self.now_s = max(self.now_s, self._beside_s)
            self._note(EventKind.GATHER, begin_s, self._beside_s, work, layer)
        self._scatter(work)

    def _scatter(self, work: MicroBatchPass) -> None:
        if self._unscattered_s > 0:
            begin_s = max(self._computed_s, self._beside_s)
            self._beside_s = begin_s + self._unscattered_s
            self._note(EventKind.SCATTER, begin_s, self._beside_s, work)
            self.now_s += self._held_up * self._unscattered_s
            self._unscattered_s = 0.0

    def _wait_for_input(self, work: MicroBatchPass, arrived_s: float, *, first: bool) -> None:
        self.now_s = max(self.now_s, arrived_s)
        host_s = self._costs.host_micro_batch_s / self._chunks
        if first and work.kind is Pass.FORWARD and host_s > 0:
            self._note(EventKind.HOST, self.now_s, self.now_s + host_s, work)
            self.now_s += host_s

    def _compute(self, of_layer: LayerPass, work: MicroBatchPass, layer: int) -> None:
        """Kernels and traffic in turn; where the host is slower, each starts when it is launched."""
        self._began_s = self.now_s
        device_s = sum(seconds for _, seconds in of_layer.parts)
        slower = max(1.0, of_layer.host_s / device_s) if device_s > 0 else 1.0
        start_s = self.now_s
        for activity, seconds in of_layer.parts:
            self._note(activity, start_s, start_s + seconds, work, layer)
            start_s += seconds * slower
        self.now_s += max(device_s, of_layer.host_s)
        self._unscattered_s, self._computed_s = of_layer.scatter_s, self.now_s

    def _head(self, activity: EventKind, seconds: float, work: MicroBatchPass) -> None:
        self._note(activity, self.now_s, self.now_s + seconds, work)
        self.now_s += seconds

    def _reduce(self, work: MicroBatchPass) -> None:
        """Once the gradients of a layer are complete, the part of their reduction that may run beside kernels."""
        hidden_s = self._costs.overlap * self._reduce_s
        if hidden_s > 0 and work.kind is self._gradients_from and work.micro_batch == self._micro_batches - 1:
            begin_s = max(self.now_s, self._beside_s)
            self._beside_s = begin_s + hidden_s
            self._note(EventKind.REDUCE, begin_s, self._beside_s, work)

    def reduced(self) -> float:
        """After the last pass: what is left of scattering and reducing; gives when gradients are complete."""
        last = self._order[-1]
        self._scatter(last)
        self.now_s = max(self.now_s, self._beside_s)
        left_s = self._held_up * self._costs.reduce_s
        self._note(EventKind.REDUCE, self.now_s, self.now_s + left_s, last)
        self.now_s += left_s
        return self.now_s

    def finish(self, ready_s: float) -> None:
        """What happens once per step, after all stages have agreed on the norm of their gradients."""
        if self._stages > 1:
            self._note_once(EventKind.MEET, ready_s - self.now_s)
        self._note_once(EventKind.OFFLOAD, self._costs.offload_s)
        self._note_once(EventKind.OPTIMIZER, self._costs.optimizer_s)
        self._note_once(EventKind.BROADCAST, self._costs.broadcast_s)
        self._note_once(EventKind.HOST, self._costs.host_step_s)

    def _note_once(self, activity: EventKind, seconds: float) -> None:
        if seconds > 0:
            self.events.append(SimulatedEvent(activity, self.now_s, self.now_s + seconds, -1, -1))
            self.now_s += seconds

    def _note(
        self,
        activity: EventKind,
        start_s: float,
        end_s: float,
        work: MicroBatchPass,
        layer: int = -1,
        partner: int = -1,
    ) -> None:
        if end_s > start_s:
            backward = work.kind is not Pass.FORWARD
            self.events.append(SimulatedEvent(activity, start_s, end_s, work.micro_batch, layer, partner, backward))
