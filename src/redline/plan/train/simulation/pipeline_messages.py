"""What the devices of a layout send each other, collective by collective: elements, types, groups, and time alone.

The sizes are those of the textbook: what every member of a group holds before and after.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from redline.plan.train.layout import Layout
from redline.plan.train.simulation.pass_work import EventKind, LayoutSetup
from redline.plan.train.stacks import Rates
from redline.plan.train.time.collectives import (
    CommGroup,
    Held,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    expert_group,
    group,
    held,
    held_experts,
    keys_and_values,
    reduce_scatter_s,
    ring_pass_s,
    sent_once_per_node,
)
from redline.plan.train.training_choices import Recompute

STAGES = "stages"
"""The group of one rank per stage."""
TYPES = {"bf16": "BFloat16", "fp16": "Half", "fp32": "Float"}
"""As c10d writes them."""
_FLOAT_BYTES = 4
Direction = tuple[EventKind, bool]
"""What is sent, and whether in the backward pass."""


@dataclass(frozen=True, kw_only=True)
class SimulatedMessage:
    """One collective, send or receive, of one member of its group."""

    collective: str
    """Our word for it."""
    group: str
    members: int
    in_elements: float
    out_elements: float
    dtype: str
    seconds: float
    """Alone."""

    def elements(self, share: float) -> tuple[int, int]:
        """In and out of so much of it."""
        return max(1, round(share * self.in_elements)), max(1, round(share * self.out_elements))


def as_one(messages: Sequence[SimulatedMessage]) -> list[SimulatedMessage]:
    """Several as the longest of them, with the elements of all."""
    if not any(simulated_message.seconds for simulated_message in messages):
        return list(messages[:1])
    longest = max(messages, key=lambda simulated_message: simulated_message.seconds)
    size = sum(max(simulated_message.in_elements, simulated_message.out_elements) for simulated_message in messages)
    more = size / max(longest.in_elements, longest.out_elements)
    return [
        replace(
            longest,
            in_elements=longest.in_elements * more,
            out_elements=longest.out_elements * more,
            seconds=sum(simulated_message.seconds for simulated_message in messages),
        )
    ]


def layer_messages(setup: LayoutSetup) -> Mapping[Direction, Sequence[SimulatedMessage]]:
    """Inside one average layer, and between stages."""
    again = setup.layout.recompute == Recompute.FULL
    tensor, context, expert = list(_tensor(setup)), list(_context(setup)), list(_expert(setup))
    tensor_back, context_back = list(_tensor_backward(setup, tensor)), list(_context_backward(context))
    repeated = 2 if again else 1
    return {
        (EventKind.TENSOR, False): tensor,
        (EventKind.TENSOR, True): [*(tensor if again else []), *tensor_back],
        (EventKind.CONTEXT, False): context,
        (EventKind.CONTEXT, True): [*(context if again else []), *context_back],
        (EventKind.EXPERT, False): expert,
        (EventKind.EXPERT, True): expert * repeated,
        (EventKind.SEND, False): [_exchange(setup, "send")],
        (EventKind.RECEIVE, False): [_exchange(setup, "receive")],
        (EventKind.MEET, False): [meeting(round(float(setup.layout.pp)))],
    }


def meeting(stages: int) -> SimulatedMessage:
    """All stages add up the norms of their gradients."""
    return _equal("all_reduce", STAGES, stages, 1, "fp32", 1.0)


def _equal(
    collective: str, group: str, members: float, elements: float, dtype: str, seconds: float
) -> SimulatedMessage:
    """One that gives every member as much as it takes."""
    return SimulatedMessage(
        collective=collective,
        group=group,
        members=round(float(members)),
        in_elements=elements,
        out_elements=elements,
        dtype=TYPES[dtype],
        seconds=seconds,
    )


def _tensor(setup: LayoutSetup) -> Iterator[SimulatedMessage]:
    """One exchange after attention and one after the feed-forward part, as far as layers have a dense one."""
    model, rates = setup.model, setup.rates
    among = group(setup.layout.tp, 1, rates.devices_per_node)
    whole = setup.tokens * float(model.hidden)
    parts = [1.0] if model.state_layers else [1.0, float(model.dense_layers / model.layers)]
    for part in (part for part in parts if part > 0):
        if setup.layout.sequence_parallel == 1:
            yield gathered(setup, "tensor", among, part * whole)
            yield scattered(setup, "tensor", among, part * whole, setup.half)
        else:
            yield reduced(setup, "tensor", among, part * whole, setup.half)


def _tensor_backward(setup: LayoutSetup, forward: Sequence[SimulatedMessage]) -> Iterator[SimulatedMessage]:
    """The same; with sequence parallel, inputs are gathered once more for the gradients of weights."""
    for simulated_message in forward:
        yield simulated_message
        if simulated_message.collective == "all_gather":
            yield simulated_message


def _context(setup: LayoutSetup) -> Iterator[SimulatedMessage]:
    """Keys and values of all members."""
    model, layout = setup.model, setup.layout
    among = group(layout.cp, layout.tp, setup.rates.devices_per_node)
    share = float(model.attention_layers / model.layers)
    elements = share * setup.tokens * float(layout.cp * keys_and_values(model, layout))
    seconds = float(ring_pass_s(elements * _number_bytes(setup), among, setup.rates))
    yield replace(gathered(setup, "context", among, elements), seconds=seconds)


def _context_backward(forward: Sequence[SimulatedMessage]) -> Iterator[SimulatedMessage]:
    """And their gradients to where they belong."""
    for simulated_message in forward:
        yield simulated_message
        yield replace(
            simulated_message,
            collective="reduce_scatter",
            in_elements=simulated_message.out_elements,
            out_elements=simulated_message.in_elements,
        )


def _expert(setup: LayoutSetup) -> Iterator[SimulatedMessage]:
    """Tokens to their experts, and back."""
    model, layout = setup.model, setup.layout
    among = expert_group(layout, setup.rates)
    once = sent_once_per_node(model, layout, setup.rates)
    rows = (
        float(layout.imbalance)
        * setup.tokens
        * float(model.experts_per_token / layout.tp * model.moe_layers / model.layers)
    )
    elements = rows * float(model.hidden)
    seconds = float(all_to_all_s(elements * _number_bytes(setup), among, setup.rates, once))
    message = _equal("all_to_all", "expert", float(layout.ep), elements, setup.half, seconds)
    yield from (message, message)


def _exchange(setup: LayoutSetup, word: str) -> SimulatedMessage:
    split = float(setup.layout.tp) if setup.layout.sequence_parallel == 1 else 1.0
    elements = setup.tokens * float(setup.model.hidden) / split
    return _equal(word, STAGES, float(setup.layout.pp), elements, setup.half, 1.0)


# --- what data parallelism sends --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Copies:
    """What data parallelism divides: the parameters of a device, those that are trained, and in which formats."""

    layout: Layout
    rates: Rates
    half: str
    layer: float
    """Parameters of one layer and its share of embedding and head, without routed experts; as the next two."""
    trained_layer: float
    trained: float
    """Of a whole stage."""
    expert_layer: float = 0.0
    """Routed experts of one layer; then the trained ones of it and of a stage."""
    trained_expert_layer: float = 0.0
    trained_experts: float = 0.0


def copy_messages(copies: Copies) -> Mapping[Direction, Sequence[SimulatedMessage]]:
    """Routed experts follow the rest, among fewer devices."""
    every, some = held(copies.layout, copies.rates), held_experts(copies.layout, copies.rates)
    sent = _sent_among(copies, every, "", copies.layer, copies.trained_layer, copies.trained)
    if copies.expert_layer > 0 and float(some.copies.size) > 1:
        more = _sent_among(
            copies, some, "expert ", copies.expert_layer, copies.trained_expert_layer, copies.trained_experts
        )
        sent = {activity: [*messages, *more[activity]] for activity, messages in sent.items()}
    return {(activity, False): messages for activity, messages in sent.items()}


def _sent_among(
    copies: Copies, by: Held, prefix: str, layer: float, trained_layer: float, trained: float
) -> dict[EventKind, list[SimulatedMessage]]:
    gradients = "fp32" if float(copies.rates.gradient_bytes) >= _FLOAT_BYTES else copies.half
    left = max(1.0 - float(copies.rates.update_overlap), 0.0)  # the rest hides behind the next forward pass
    plain = [reduced(copies, f"{prefix}data", by.copies, trained, gradients)]
    scatter = list(_scattered_over(copies, by, prefix, trained, gradients))
    return {
        EventKind.GATHER: [gathered(copies, f"{prefix}data", by.shards, layer)],
        EventKind.SCATTER: list(_scattered_over(copies, by, prefix, trained_layer, gradients)),
        EventKind.REDUCE: plain if copies.layout.zero == 0 else scatter,
        EventKind.BROADCAST: [gathered(copies, f"{prefix}data", by.shards, trained * left)],
    }


def _scattered_over(copies: Copies, by: Held, prefix: str, elements: float, dtype: str) -> Iterator[SimulatedMessage]:
    """Over the devices that split the states, then over those that hold the same shard (HSDP)."""
    yield scattered(copies, f"{prefix}data", by.shards, elements, dtype)
    if float(by.replicas.size) > 1:
        yield reduced(copies, f"{prefix}replicas", by.replicas, elements / float(by.shards.size), dtype)


def _number_bytes(setup: LayoutSetup | Copies) -> float:
    return float(setup.rates.number_bytes)


def gathered(setup: LayoutSetup | Copies, name: str, among: CommGroup, elements: float) -> SimulatedMessage:
    seconds = float(all_gather_s(elements * _number_bytes(setup), among, setup.rates))
    whole = _equal("all_gather", name, float(among.size), elements, setup.half, seconds)
    return replace(whole, in_elements=elements / float(among.size))


def scattered(
    setup: LayoutSetup | Copies, name: str, among: CommGroup, elements: float, dtype: str
) -> SimulatedMessage:
    size = _FLOAT_BYTES if dtype == "fp32" else _number_bytes(setup)
    seconds = float(reduce_scatter_s(elements * size, among, setup.rates))
    whole = _equal("reduce_scatter", name, float(among.size), elements, dtype, seconds)
    return replace(whole, out_elements=elements / float(among.size))


def reduced(setup: LayoutSetup | Copies, name: str, among: CommGroup, elements: float, dtype: str) -> SimulatedMessage:
    size = _FLOAT_BYTES if dtype == "fp32" else _number_bytes(setup)
    seconds = float(all_reduce_s(elements * size, among, setup.rates))
    return _equal("all_reduce", name, float(among.size), elements, dtype, seconds)
