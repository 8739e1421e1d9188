"""What each pass of a step does, operator by operator, with the time that each takes alone: what a trace shows of it.

Times come from the same functions as the pieces of the step. They say how a piece divides; how long it takes as a
whole, the piece says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from redline.model.matmuls import Matmul
from redline.model.model import Model
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.simulation.activity import EventKind
from redline.planner.train.simulation.calls import AttentionCall, MatmulCall, Moved, Role, SimulatedWork, Softmax
from redline.planner.train.time.layer import (
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
from redline.planner.train.trained import frozen, trained_layer
from redline.planner.train.training_choices import Recompute
from redline.planner.train.training_rates import Rates

_REST = "norms, sums, activation functions"
_AFTER_ATTENTION = "output"  # the matmul that reads what attention makes


@dataclass(frozen=True, kw_only=True)
class LayoutSetup:
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


def pass_work(setup: LayoutSetup, *, weights_apart: bool) -> Mapping[EventKind, Sequence[SimulatedWork]]:
    """Of one average layer, and of the head. `weights_apart`: gradients of weights have a pass of their own."""
    times = layer_times(setup.model, setup.batch, setup.layout, setup.rates)
    products = [_product(setup, matmul) for matmul in layer_matmuls(setup.model)]
    attention = _attention(setup, times, backward=False)
    forward = [*_around(products, attention), _moved(setup, _REST, float(times.passes_s))]
    weights = list(_weights(setup, products))
    return {
        EventKind.FORWARD: forward,
        EventKind.RECOMPUTE: _recomputed(setup, forward, attention),
        EventKind.BACKWARD: [*_inputs(setup, products, times), *([] if weights_apart else weights)],
        EventKind.WEIGHTS: weights,
        EventKind.HEAD_FORWARD: _head(setup),
        EventKind.HEAD_BACKWARD: _head_backward(setup),
    }


def _product(setup: LayoutSetup, matmul: Matmul) -> MatmulCall:
    """What only some layers have is a smaller one in the average layer."""
    rows, n, k, matrices = (float(size) for size in on_device(matmul, setup.tokens, setup.layout))
    whole = MatmulCall(
        label=matmul.name,
        rows=rows,
        k=max(1, round(k)),
        n=max(1, round(n)),
        matrices=max(1, round(matrices)),
        routed=matmul.routed,
        dtype=setup.dtype,
        out=setup.half,
        seconds=float(matmul_s(matmul, setup.tokens, setup.model, setup.layout, setup.rates)),
    )
    return _smaller(whole, float(matmul.layers) / float(setup.model.layers))


def _smaller(product: MatmulCall, share: float) -> MatmulCall:
    """With so much of its FLOPs: smaller in all three sizes, so that it is bound by the same roof as before."""
    if share == 1:
        return product
    n, k = (max(1, round(size * share ** (1 / 3))) for size in (product.n, product.k))
    return replace(product, rows=product.rows * product.n * product.k * share / (n * k), n=n, k=k)


def _moved(setup: LayoutSetup, label: str, seconds: float) -> Moved:
    """As many bytes as memory moves in that time."""
    return Moved(label=label, moved_bytes=seconds * setup.memory_bytes_per_s, dtype=setup.half, seconds=seconds)


def _around(products: Sequence[MatmulCall], attention: Sequence[SimulatedWork]) -> Iterator[SimulatedWork]:
    """Attention between the matmuls that make its inputs and the one that reads its result."""
    names = [matmul_call.label for matmul_call in products]
    at = names.index(_AFTER_ATTENTION) if _AFTER_ATTENTION in names else len(names)
    yield from products[:at]
    yield from attention
    yield from products[at:]


def _inputs(setup: LayoutSetup, products: Sequence[MatmulCall], times: LayerTimes) -> Iterator[SimulatedWork]:
    """The backward pass without the gradients of weights: the last layer's comes first."""
    yield _moved(setup, _REST, PASSES_BACKWARD * float(times.passes_s))
    gradients = [replace(matmul_call, role=Role.INPUTS) for matmul_call in products]
    yield from reversed(list(_around(gradients, _attention(setup, times, backward=True))))


def _weights(setup: LayoutSetup, products: Sequence[MatmulCall]) -> Iterator[SimulatedWork]:
    if not frozen(setup.layout):
        yield from (replace(matmul_call, role=Role.WEIGHTS) for matmul_call in reversed(products))
    added = float(divided(trained_layer(setup.model, setup.layout), setup.layout) * setup.rates.accumulate_bytes)
    yield _moved(setup, "gradients added up", added / setup.memory_bytes_per_s)


def _recomputed(
    setup: LayoutSetup, forward: Sequence[SimulatedWork], attention: Sequence[SimulatedWork]
) -> list[SimulatedWork]:
    if setup.layout.recompute == Recompute.FULL:
        return list(forward)
    share = float(setup.rates.selective_share)
    return [
        *attention,
        *(_part(simulated_work, share) for simulated_work in forward if simulated_work not in attention and share > 0),
    ]


def _part(work: SimulatedWork, share: float) -> SimulatedWork:
    if isinstance(work, MatmulCall):
        return replace(_smaller(work, share), seconds=work.seconds * share)
    if isinstance(work, Moved):
        return replace(work, moved_bytes=work.moved_bytes * share, seconds=work.seconds * share)
    return work


# --- attention --------------------------------------------------------------------------------------------------------


def _attention(setup: LayoutSetup, times: LayerTimes, *, backward: bool) -> list[SimulatedWork]:
    seconds = float(times.attention_backward_s if backward else times.attention_s)
    if not seconds > 0:
        return []
    return [_fused(setup, seconds, backward)] if setup.layout.flash == 1 else _unfused(setup, seconds, backward)


def _fused(setup: LayoutSetup, seconds: float, backward: bool) -> AttentionCall:
    model, layout, batch = setup.model, setup.layout, setup.batch
    share = float(model.attention_layers / model.layers)
    plain = share == 1 and layout.cp == 1 and not model.cross_tokens and not model.window_layers
    heads, kv_heads = (max(1, round(float(count / layout.tp))) for count in (model.heads, model.kv_heads))
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
        dtype=setup.half,
        seconds=seconds,
    )


def _unfused(setup: LayoutSetup, seconds: float, backward: bool) -> list[SimulatedWork]:
    """Scores of all pairs, their softmax, and the sums that they weigh."""
    model, layout, batch = setup.model, setup.layout, setup.batch
    sequences, heads = max(1, round(float(layout.micro_batch))), max(1, round(float(model.heads / layout.tp)))
    queries, keys = max(1, round(float(batch.sequence / layout.cp))), round(float(batch.sequence))
    share = float(model.attention_layers / model.layers)
    roles = (Role.INPUTS, Role.WEIGHTS) if backward else (Role.FORWARD,)
    passes, products = len(roles) * float(setup.rates.score_passes), 2 * len(roles)
    pass_s = share * sequences * heads * queries * keys * float(setup.rates.number_bytes) / setup.memory_bytes_per_s
    # Each product writes or reads all scores once.
    moved_s = min(max(passes - products, passes / 2) * pass_s, seconds)
    shape = (sequences, heads, max(1, round(queries * share)), keys)
    softmax = Softmax(shape=shape, backward=backward, dtype=setup.half, seconds=moved_s)
    size, value_size = round(float(model.head_dim)), round(float(model.value_dim))
    left_s = (seconds - moved_s) / len(roles)
    parts: list[list[SimulatedWork]] = []
    for label, k, n, width in (("scores", size, keys, size), ("values", keys, value_size, value_size)):
        product = MatmulCall(
            label=label,
            rows=sequences * heads * queries * share,
            k=k,
            n=n,
            matrices=sequences * heads,
            dtype=setup.half,
            out=setup.half,
            seconds=left_s * width / (size + value_size),
        )
        parts.append([replace(product, role=role) for role in roles])
    return [*parts[0], softmax, *parts[1]]


# --- the head ---------------------------------------------------------------------------------------------------------


def _head(setup: LayoutSetup) -> list[SimulatedWork]:
    """Logits and loss."""
    n = float(setup.model.vocab / setup.layout.tp)
    passes_s = float(setup.rates.logit_passes * setup.rates.number_bytes * setup.tokens * n) / setup.memory_bytes_per_s
    seconds = float(head_forward_s(setup.model, setup.batch, setup.layout, setup.rates))
    if not n > 0:
        return []
    logits = MatmulCall(
        label="logits",
        rows=setup.tokens,
        k=round(float(setup.model.hidden)),
        n=max(1, round(n)),
        dtype=setup.half,
        out=setup.half,
        seconds=max(seconds - passes_s, 0.0),
    )
    return [logits, _moved(setup, "loss", passes_s)]


def _head_backward(setup: LayoutSetup) -> list[SimulatedWork]:
    """Twice the forward pass, or once where the head isn't trained."""
    untrained = bool(frozen(setup.layout))
    backward_work: list[SimulatedWork] = []
    for work in reversed(_head(setup)):
        if isinstance(work, MatmulCall):
            roles = (Role.INPUTS,) if untrained else (Role.INPUTS, Role.WEIGHTS)
            backward_work.extend(replace(work, role=role) for role in roles)
        else:
            backward_work.append(_moved(setup, "loss", (1 if untrained else 2) * work.seconds))
    return backward_work
