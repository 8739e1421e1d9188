"""What each pass of a step does, operator by operator, with the time that each takes alone: what a trace shows of it.

Times come from the same functions as the pieces of the step. They say how a piece divides; how long it takes as a
whole, the piece says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from redline.model.matmuls import Matmul
from redline.model.model import Model
from redline.model.parameters import layer_parameters
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.simulation.activity import EventKind
from redline.planner.train.simulation.calls import AttentionCall, MatmulCall, Moved, Role, SimulatedWork, Softmax
from redline.planner.train.time.layer import (
    NUMBER_BYTES,
    PASSES_BACKWARD,
    LayerTimes,
    head_forward_s,
    layer_matmuls,
    layer_times,
    matmul_s,
    on_device,
    seen_tokens,
    tokens_per_device,
)
from redline.planner.train.time.step_costs import divided
from redline.planner.train.training_choices import Recompute
from redline.planner.train.training_rates import Rates

_REST = "norms, sums, activation functions"
_AFTER_ATTENTION = "output"  # the matmul that reads what attention makes


@dataclass(frozen=True, kw_only=True)
class OneLayout:
    """A layout with all that its cost depends on, as plain numbers."""

    model: Model
    batch: Batch
    layout: Layout
    rates: Rates
    dtype: str
    half: str
    """The number format of all that is not a matmul of a layer: one of at least 16 bits."""

    @property
    def tokens(self) -> float:
        """Of a micro-batch, on one device."""
        return float(tokens_per_device(self.batch, self.layout))

    @property
    def memory_bytes_per_s(self) -> float:
        return float(self.rates.memory_bytes_per_s)


def pass_work(one: OneLayout, *, weights_apart: bool) -> Mapping[EventKind, Sequence[SimulatedWork]]:
    """Of one average layer, and of the head. `weights_apart`: gradients of weights have a pass of their own."""
    times = layer_times(one.model, one.batch, one.layout, one.rates)
    products = [_product(one, each) for each in layer_matmuls(one.model)]
    attention = _attention(one, times, backward=False)
    forward = [*_around(products, attention), _moved(one, _REST, float(times.passes_s))]
    weights = list(_weights(one, products))
    return {
        EventKind.FORWARD: forward,
        EventKind.RECOMPUTE: _recomputed(one, forward, attention),
        EventKind.BACKWARD: [*_inputs(one, products, times), *([] if weights_apart else weights)],
        EventKind.WEIGHTS: weights,
        EventKind.HEAD_FORWARD: _head(one),
        EventKind.HEAD_BACKWARD: _head_backward(one),
    }


def _product(one: OneLayout, matmul: Matmul) -> MatmulCall:
    """What only some layers have is a smaller one in the average layer."""
    rows, n, k, matrices = (float(each) for each in on_device(matmul, one.tokens, one.layout))
    whole = MatmulCall(
        label=matmul.name,
        rows=rows,
        k=max(1, round(k)),
        n=max(1, round(n)),
        matrices=max(1, round(matrices)),
        routed=matmul.routed,
        dtype=one.dtype,
        out=one.half,
        seconds=float(matmul_s(matmul, one.tokens, one.model, one.layout, one.rates)),
    )
    return _smaller(whole, float(matmul.layers) / float(one.model.layers))


def _smaller(product: MatmulCall, share: float) -> MatmulCall:
    """With so much of its FLOPs: smaller in all three sizes, so that it is bound by the same roof as before."""
    if share == 1:
        return product
    n, k = (max(1, round(size * share ** (1 / 3))) for size in (product.n, product.k))
    return replace(product, rows=product.rows * product.n * product.k * share / (n * k), n=n, k=k)


def _moved(one: OneLayout, label: str, seconds: float) -> Moved:
    """As many bytes as memory moves in that time."""
    return Moved(label=label, moved_bytes=seconds * one.memory_bytes_per_s, dtype=one.half, seconds=seconds)


def _around(products: Sequence[MatmulCall], attention: Sequence[SimulatedWork]) -> Iterator[SimulatedWork]:
    """Attention between the matmuls that make its inputs and the one that reads its result."""
    names = [each.label for each in products]
    at = names.index(_AFTER_ATTENTION) if _AFTER_ATTENTION in names else len(names)
    yield from products[:at]
    yield from attention
    yield from products[at:]


def _inputs(one: OneLayout, products: Sequence[MatmulCall], times: LayerTimes) -> Iterator[SimulatedWork]:
    """The backward pass without the gradients of weights: the last layer's comes first."""
    yield _moved(one, _REST, PASSES_BACKWARD * float(times.passes_s))
    gradients = [replace(each, role=Role.INPUTS) for each in products]
    yield from reversed(list(_around(gradients, _attention(one, times, backward=True))))


def _weights(one: OneLayout, products: Sequence[MatmulCall]) -> Iterator[SimulatedWork]:
    if one.layout.frozen == 1:
        return
    yield from (replace(each, role=Role.WEIGHTS) for each in reversed(products))
    added = float(divided(layer_parameters(one.model), one.layout) * one.rates.accumulate_bytes)
    yield _moved(one, "gradients added up", added / one.memory_bytes_per_s)


def _recomputed(
    one: OneLayout, forward: Sequence[SimulatedWork], attention: Sequence[SimulatedWork]
) -> list[SimulatedWork]:
    if one.layout.recompute == Recompute.FULL:
        return list(forward)
    share = float(one.rates.selective_share)
    return [*attention, *(_part(each, share) for each in forward if each not in attention and share > 0)]


def _part(work: SimulatedWork, share: float) -> SimulatedWork:
    if isinstance(work, MatmulCall):
        return replace(_smaller(work, share), seconds=work.seconds * share)
    if isinstance(work, Moved):
        return replace(work, moved_bytes=work.moved_bytes * share, seconds=work.seconds * share)
    return work


# --- attention --------------------------------------------------------------------------------------------------------


def _attention(one: OneLayout, times: LayerTimes, *, backward: bool) -> list[SimulatedWork]:
    seconds = float(times.attention_backward_s if backward else times.attention_s)
    if not seconds > 0:
        return []
    return [_fused(one, seconds, backward)] if one.layout.flash == 1 else _unfused(one, seconds, backward)


def _fused(one: OneLayout, seconds: float, backward: bool) -> AttentionCall:
    model, layout, batch = one.model, one.layout, one.batch
    share = float(model.attention_layers / model.layers)
    plain = share == 1 and layout.cp == 1 and not model.cross_tokens and not model.window_layers
    heads, kv_heads = (max(1, round(float(each / layout.tp))) for each in (model.heads, model.kv_heads))
    return AttentionCall(
        sequences=max(1, round(float(layout.micro_batch))),
        queries=float(batch.sequence / layout.cp) * share,
        keys=max(1, round(float(seen_tokens(model, batch)))),
        heads=heads,
        kv_heads=kv_heads if heads % kv_heads == 0 else heads,
        size=round(float(model.head_dim)),
        value_size=round(float(model.value_dim)),
        causal=bool(plain and model.causal == 1),
        backward=backward,
        dtype=one.half,
        seconds=seconds,
    )


def _unfused(one: OneLayout, seconds: float, backward: bool) -> list[SimulatedWork]:
    """Scores of all pairs, their softmax, and the sums that they weigh."""
    model, layout, batch = one.model, one.layout, one.batch
    sequences, heads = max(1, round(float(layout.micro_batch))), max(1, round(float(model.heads / layout.tp)))
    queries, keys = max(1, round(float(batch.sequence / layout.cp))), round(float(batch.sequence))
    share = float(model.attention_layers / model.layers)
    roles = (Role.INPUTS, Role.WEIGHTS) if backward else (Role.FORWARD,)
    passes, products = len(roles) * float(one.rates.score_passes), 2 * len(roles)
    pass_s = share * sequences * heads * queries * keys * NUMBER_BYTES / one.memory_bytes_per_s
    # Each product writes or reads all scores once.
    moved_s = min(max(passes - products, passes / 2) * pass_s, seconds)
    shape = (sequences, heads, max(1, round(queries * share)), keys)
    softmax = Softmax(shape=shape, backward=backward, dtype=one.half, seconds=moved_s)
    size, value_size = round(float(model.head_dim)), round(float(model.value_dim))
    left_s = (seconds - moved_s) / len(roles)
    found: list[list[SimulatedWork]] = []
    for label, k, n, width in (("scores", size, keys, size), ("values", keys, value_size, value_size)):
        product = MatmulCall(
            label=label,
            rows=sequences * heads * queries * share,
            k=k,
            n=n,
            matrices=sequences * heads,
            dtype=one.half,
            out=one.half,
            seconds=left_s * width / (size + value_size),
        )
        found.append([replace(product, role=role) for role in roles])
    return [*found[0], softmax, *found[1]]


# --- the head ---------------------------------------------------------------------------------------------------------


def _head(one: OneLayout) -> list[SimulatedWork]:
    """Logits and loss."""
    n = float(one.model.vocab / one.layout.tp)
    passes_s = float(one.rates.logit_passes * NUMBER_BYTES * one.tokens * n) / one.memory_bytes_per_s
    seconds = float(head_forward_s(one.model, one.batch, one.layout, one.rates))
    if not n > 0:
        return []
    logits = MatmulCall(
        label="logits",
        rows=one.tokens,
        k=round(float(one.model.hidden)),
        n=max(1, round(n)),
        dtype=one.half,
        out=one.half,
        seconds=max(seconds - passes_s, 0.0),
    )
    return [logits, _moved(one, "loss", passes_s)]


def _head_backward(one: OneLayout) -> list[SimulatedWork]:
    """Twice the forward pass, or once where the head isn't trained."""
    frozen = one.layout.frozen == 1
    found: list[SimulatedWork] = []
    for each in reversed(_head(one)):
        if isinstance(each, MatmulCall):
            roles = (Role.INPUTS,) if frozen else (Role.INPUTS, Role.WEIGHTS)
            found.extend(replace(each, role=role) for role in roles)
        else:
            found.append(_moved(one, "loss", (1 if frozen else 2) * each.seconds))
    return found
