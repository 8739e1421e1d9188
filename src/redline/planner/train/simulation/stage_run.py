"""One stage of a pipeline at work: where its streams are, and what happened on them when.

The kernels of a layer and the traffic inside it take turns on one stream. A second one gathers weights one layer ahead
and scatters or reduces gradients. Of that, the share `overlap` may run while the device computes; the rest of a gather
or scatter holds up the next layer, the rest of the reduction follows the last backward pass.
"""

from collections.abc import Iterator
from typing import NamedTuple

from redline.planner.train.simulation.activity import EventKind
from redline.planner.train.simulation.layer_pass import (
    LayerPass,
    has_chunks,
    layer_pass,
    layers_of_chunks,
    puts_weights_off,
)
from redline.planner.train.simulation.schedule import MicroBatchPass, Pass, work_order
from redline.planner.train.time.step_costs import StepCosts
from redline.planner.train.training_choices import PipelineSchedule


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
