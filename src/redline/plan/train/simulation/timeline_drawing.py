"""How the events of a simulated step are drawn: which operators each kernel divides into, and what is sent."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from redline.model.model import CountedModule, Model
from redline.model.parameters import layer_parameters
from redline.plan.train.layout import Batch, Layout, first_stage, trained_ends, trained_layer
from redline.plan.train.simulation import pipeline_messages
from redline.plan.train.simulation.pass_work import (
    EventKind,
    LayoutSetup,
    Moved,
    SimulatedCall,
    SimulatedWork,
    as_one,
    pass_work,
)
from redline.plan.train.simulation.pipeline_messages import (
    Copies,
    Direction,
    SimulatedMessage,
    copy_messages,
    layer_messages,
)
from redline.plan.train.simulation.schedule import SimulatedEvent, puts_weights_off
from redline.plan.train.stacks import Rates
from redline.plan.train.time.step_costs import OFFLOADED_BYTES, StepCosts, apart, ends, optimizer_states

KERNELS = {
    EventKind.FORWARD: "forward",
    EventKind.RECOMPUTE: "recompute",
    EventKind.BACKWARD: "backward",
    EventKind.WEIGHTS: "weight gradients",
    EventKind.HEAD_FORWARD: "logits and loss",
    EventKind.HEAD_BACKWARD: "logits and loss, backward",
    EventKind.OPTIMIZER: "optimizer",
    EventKind.OFFLOAD: "Memcpy HtoD (offloaded optimizer)",
}
_DIGITS = 6  # of a number of layers


class Drawing:
    """Of one layout. What it has no operators of is drawn as one kernel without any, whose work is not known."""

    def __init__(
        self,
        costs: StepCosts[float],
        work: Mapping[EventKind, Sequence[SimulatedWork]],
        messages: Mapping[Direction, Sequence[SimulatedMessage]],
        offloaded_bytes: float = 0.0,
        offloading_s: float = 0.0,
    ) -> None:
        self._costs = costs
        self._work = work
        self._messages = messages
        self.offloaded_bytes = round(offloaded_bytes)
        self.offloading_s = offloading_s
        """What copying these takes. Then the device waits for Adam on the host."""
        self._known: dict[tuple[EventKind, float], tuple[SimulatedCall, ...]] = {}

    def coarse(self) -> "Drawing":
        """With one operator for each kernel, and one collective for all that a pass sends."""
        return Drawing(
            self._costs,
            {activity: as_one(work) for activity, work in self._work.items()},
            {direction: pipeline_messages.as_one(sent) for direction, sent in self._messages.items()},
            self.offloaded_bytes,
            self.offloading_s,
        )

    def calls(self, event: SimulatedEvent) -> tuple[SimulatedCall, ...]:
        """The operators of a kernel, in order."""
        key = (event.activity, self._share(event))
        if key not in self._known:
            work, name = self._work.get(event.activity, ()), KERNELS[event.activity]
            self._known[key] = tuple(piece.call(name, key[1]) for piece in work if piece.seconds > 0)
        return self._known[key]

    def messages(self, event: SimulatedEvent) -> tuple[Sequence[SimulatedMessage], float]:
        """The collectives of an event in order, and how much of each."""
        messages = self._messages.get((event.activity, event.backward)) or self._messages.get(
            (event.activity, False), ()
        )
        return messages, self._share(event)

    def takes_s(self, event: SimulatedEvent) -> float:
        """What the traffic of a layer takes, with the part that hides behind its kernels."""
        messages, share = self.messages(event)
        return share * sum(message.seconds for message in messages)

    def spans(self, activity: EventKind) -> int:
        """About how many spans an event of this kind has: operators, launches and what they launch."""
        if activity in KERNELS:
            return 3 * sum(1 for piece in self._work.get(activity, ()) if piece.seconds > 0) or 2
        return 2 * max(1, len(self._messages.get((activity, True)) or self._messages.get((activity, False), ())))

    def _share(self, event: SimulatedEvent) -> float:
        """How many layers an event stands for, or which part of what happens once."""
        whole_s = self._seconds.get((event.activity, event.backward), 0.0)
        return round((event.end_s - event.start_s) / whole_s, _DIGITS) if whole_s > 0 else 1.0

    @cached_property
    def _seconds(self) -> Mapping[Direction, float]:
        costs = self._costs
        later_s = costs.weight_gradient_s if puts_weights_off(costs) else 0.0
        durations: dict[Direction, float] = {
            (EventKind.FORWARD, False): costs.forward_s,
            (EventKind.RECOMPUTE, True): costs.recompute_s,
            (EventKind.BACKWARD, True): costs.backward_s - later_s,
            (EventKind.WEIGHTS, True): costs.weight_gradient_s,
            (EventKind.TENSOR, False): costs.tensor_forward_s,
            (EventKind.TENSOR, True): costs.tensor_backward_s,
            (EventKind.CONTEXT, False): costs.context_forward_s,
            (EventKind.CONTEXT, True): costs.context_backward_s,
            (EventKind.EXPERT, False): costs.expert_forward_s,
            (EventKind.EXPERT, True): costs.expert_backward_s,
        }
        either = {
            EventKind.GATHER: costs.gather_s,
            EventKind.SCATTER: costs.scatter_s,
            EventKind.REDUCE: costs.reduce_s,
        }
        return durations | {(activity, back): seconds for activity, seconds in either.items() for back in (False, True)}


def module_drawing(
    module: CountedModule, layout: Layout, rates: Rates, costs: StepCosts[float], *, half: str
) -> Drawing:
    """What it sends; its kernels stand for many operators each."""
    layer, trained = module.parameters / module.blocks, float(module.trained_parameters)
    copies = Copies(
        layout=layout, rates=rates, half=half, layer=layer, trained_layer=trained / module.blocks, trained=trained
    )
    return _drawing(costs, copies, {}, {})


def model_drawing(
    model: Model, batch: Batch, layout: Layout, rates: Rates, costs: StepCosts[float], *, dtype: str, half: str
) -> Drawing:
    """With the operators of every kernel."""
    setup = LayoutSetup(model=model, batch=batch, layout=layout, rates=rates, dtype=dtype, half=half)
    layer, experts = (float(count) for count in apart(layer_parameters(model), layout))
    layers = float(first_stage(model, batch, layout, rates.balanced_head).layers)
    split = layer + float(ends(model, layout)) / layers
    trained_rest, trained_experts = (float(count) for count in apart(trained_layer(model, layout), layout))
    trained = trained_rest + float(trained_ends(layout) * ends(model, layout)) / layers
    copies = Copies(
        layout=layout,
        rates=rates,
        half=half,
        layer=split,
        trained_layer=trained,
        trained=trained * layers,
        expert_layer=experts,
        trained_expert_layer=trained_experts,
        trained_experts=trained_experts * layers,
    )
    work = pass_work(setup, weights_apart=puts_weights_off(costs))
    return _drawing(costs, copies, work, layer_messages(setup))


def _drawing(
    costs: StepCosts[float],
    copies: Copies,
    work: Mapping[EventKind, Sequence[SimulatedWork]],
    messages: Mapping[Direction, Sequence[SimulatedMessage]],
) -> Drawing:
    """With what the optimizer moves: its share of the states, on the device or over the link to the host."""
    layout, rates = copies.layout, copies.rates
    states = float(optimizer_states(copies.trained, copies.trained_experts, layout, rates))
    offloaded = states * float(layout.offload)
    moved_bytes = (states - offloaded) * float(rates.optimizer_bytes)
    update = Moved(label="update", moved_bytes=moved_bytes, dtype="fp32", seconds=float(costs.optimizer_s))
    return Drawing(
        costs,
        {**work, EventKind.OPTIMIZER: [update] if moved_bytes > 0 else []},
        {**messages, **copy_messages(copies)},
        offloaded * OFFLOADED_BYTES,
        offloaded * OFFLOADED_BYTES / float(rates.host_link_bytes_per_s),
    )
