"""What each pass of a step does, operator by operator, with the time that each takes alone: what a trace shows of it.

Times come from the same functions as the pieces of the step. They say how a piece divides; how long it takes as a
whole, the piece says.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto
from typing import Protocol

from redline.model.flops import Matmul
from redline.model.model import Model
from redline.plan.train.layout import Batch, Layout, frozen, trained_layer
from redline.plan.train.stacks import Rates
from redline.plan.train.time.layer import (
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
from redline.plan.train.time.step_costs import divided
from redline.plan.train.training_choices import Recompute

# --- activities -------------------------------------------------------------------------------------------------------


class EventKind(IntEnum):
    """Computing, sending, or moving memory."""

    FORWARD = 0
    RECOMPUTE = 1
    BACKWARD = 2
    WEIGHTS = 3
    HEAD_FORWARD = 4
    HEAD_BACKWARD = 5
    OPTIMIZER = 6
    TENSOR = 10
    CONTEXT = 11
    EXPERT = 12
    GATHER = 13
    SCATTER = 14
    REDUCE = 15
    BROADCAST = 16
    SEND = 17
    RECEIVE = 18
    MEET = 19  # all stages agree on the norm of gradients before the optimizer
    OFFLOAD = 20
    HOST = 21  # the device waits for the host, which does something else than launching


# --- calls of operators -----------------------------------------------------------------------------------------------
# One call stands for one or several equal layers. Whole layers are a dimension of their own, so that FLOPs and bytes
# are those of all; a part of a layer has as many fewer rows.


Shape = list[int]
# As the profiler writes types of tensors; the number that PyTorch has for them; and c10d's word, in collectives.
TENSOR_TYPES = {
    "bf16": "c10::BFloat16",
    "fp16": "c10::Half",
    "fp32": "float",
    "fp8": "c10::Float8_e4m3fn",
    "fp4": "c10::Float4_e2m1fn_x2",
}
_TYPE_NUMBERS = {"bf16": 15, "fp16": 5, "fp32": 6}
_TYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
_SHORT = {"fp8": 1, "fp4": 2}  # numbers in an element, of formats that only matmuls have
_TENSORS_OF_SUM = 3  # two are read, one is written


@dataclass(frozen=True, kw_only=True)
class SimulatedCall:
    """One operator with one kernel."""

    name: str
    kernel: str
    shapes: str
    """JSON lists, as the profiler writes them; so are the next two."""
    dtypes: str
    values: str
    seconds: float
    """Alone; a trace scales what belongs together to what it takes together."""


class SimulatedWork(Protocol):
    """Something that a pass does."""

    @property
    def seconds(self) -> float:
        """For one layer, as are the FLOPs."""

    @property
    def flops(self) -> float: ...

    def call(self, kernel: str, layers: float) -> SimulatedCall: ...


class Role(Enum):
    """What a matmul computes, of rows of k numbers and a matrix of k x n."""

    FORWARD = auto()
    INPUTS = auto()  # the gradient of the rows
    WEIGHTS = auto()  # the gradient of the matrix


@dataclass(frozen=True, kw_only=True)
class MatmulCall:
    """A matmul of one layer, or of many matrices that share the rows (experts)."""

    label: str
    rows: float
    k: int
    n: int
    matrices: int = 1
    routed: bool = False
    role: Role = Role.FORWARD
    dtype: str
    out: str
    """The number format of the result."""
    seconds: float

    @property
    def flops(self) -> float:
        return 2 * self.rows * self.k * self.n

    def call(self, kernel: str, layers: float) -> SimulatedCall:
        repeated = _whole(layers)
        groups = self.matrices * (repeated or 1)
        rows = max(1, round(self.rows * (1 if repeated else layers) / self.matrices))
        left, inner, right = {
            Role.FORWARD: (rows, self.k, self.n),
            Role.INPUTS: (rows, self.n, self.k),
            Role.WEIGHTS: (self.n, rows, self.k),
        }[self.role]
        inner = max(1, inner // _SHORT.get(self.dtype, 1))
        outer = [groups] if groups > 1 else []
        shapes = [[*outer, left, inner], [*outer, inner, right]]
        name = f"{kernel}: matmul {self.label}"
        more = {Role.INPUTS: ", gradient of inputs", Role.WEIGHTS: ", gradient of weights"}.get(self.role, "")
        return self._called(f"{name}{more}", shapes, layers)

    def _called(self, kernel: str, shapes: list[Shape], layers: float) -> SimulatedCall:
        number, both = str(_TYPE_NUMBERS[self.out]), [TENSOR_TYPES[self.dtype]] * 2
        seconds = layers * self.seconds
        if len(shapes[0]) == 3 and (self.routed or self.dtype in _SHORT):
            types, values = [*both, "", "", "Scalar"], ["", "", "", "", number]
            return _call("aten::_grouped_mm", kernel, [*shapes, [], [], []], types, values, seconds)
        if len(shapes[0]) == 3:
            return _call("aten::bmm", kernel, shapes, both, ["", ""], seconds)
        if self.dtype in _SHORT:
            types = [*both, "float", "float", "", "", "Scalar", "Scalar"]
            values = ["", "", "", "", "", "", number, "False"]
            return _call("aten::_scaled_mm", kernel, [*shapes, *([[]] * 6)], types, values, seconds)
        return _call("aten::mm", kernel, shapes, both, ["", ""], seconds)


@dataclass(frozen=True, kw_only=True)
class AttentionCall:
    """Fused attention of one layer. Where it is not causal, `keys` are those that a query meets on average."""

    sequences: int
    queries: float
    keys: int
    heads: int
    kv_heads: int
    size: int
    value_size: int
    causal: bool
    backward: bool = False
    dtype: str
    seconds: float

    @property
    def flops(self) -> float:
        pairs = self.sequences * self.heads * self.queries * self.keys
        products = (3 * self.size + 2 * self.value_size) if self.backward else self.size + self.value_size
        return 2 * pairs * products

    def call(self, kernel: str, layers: float) -> SimulatedCall:
        repeated = _whole(layers)
        sequences = self.sequences * (repeated or 1)
        queries = max(1, round(self.queries * (1 if repeated else layers)))
        keys = queries if self.causal else self.keys
        query, result = ([sequences, self.heads, queries, size] for size in (self.size, self.value_size))
        key, value = ([sequences, self.kv_heads, keys, size] for size in (self.size, self.value_size))
        tensor, causal, seconds = TENSOR_TYPES[self.dtype], str(self.causal), layers * self.seconds
        if not self.backward:
            types, values = [tensor] * 3 + ["Scalar"] * 3, ["", "", "", "0.", causal, "False"]
            name = "aten::_scaled_dot_product_flash_attention"
            return _call(name, f"{kernel}: attention", [query, key, value, [], [], []], types, values, seconds)
        shapes = [result, query, key, value, result, [sequences, self.heads, queries], *([[]] * 6)]
        types = [*([tensor] * 5), "float", "", "", "Scalar", "Scalar", "Scalar", "Scalar"]
        values = [*([""] * 8), str(queries), str(keys), "0.", causal]
        name = "aten::_scaled_dot_product_flash_attention_backward"
        return _call(name, f"{kernel}: attention", shapes, types, values, seconds)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """The softmax of scores that go through memory, or its gradient."""

    shape: tuple[int, int, int, int]
    backward: bool = False
    dtype: str
    seconds: float
    flops: float = 0.0

    def call(self, kernel: str, layers: float) -> SimulatedCall:
        first = max(1, round(self.shape[0] * layers))
        shape, tensor = [first, *self.shape[1:]], TENSOR_TYPES[self.dtype]
        seconds, kernel = layers * self.seconds, f"{kernel}: softmax of attention"
        if not self.backward:
            types, values = [tensor, "Scalar", "Scalar"], ["", "-1", "False"]
            return _call("aten::_softmax", kernel, [shape, [], []], types, values, seconds)
        types, values = [tensor, tensor, "Scalar", "Scalar"], ["", "", "-1", str(_TYPE_NUMBERS[self.dtype])]
        return _call("aten::_softmax_backward_data", kernel, [shape, shape, [], []], types, values, seconds)


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Kernels that only move memory, as one sum of two tensors that moves as many bytes."""

    label: str
    moved_bytes: float
    dtype: str
    seconds: float
    flops: float = 0.0

    def call(self, kernel: str, layers: float) -> SimulatedCall:
        elements = max(1, round(layers * self.moved_bytes / _TENSORS_OF_SUM / _TYPE_BYTES[self.dtype]))
        types, values = [*([TENSOR_TYPES[self.dtype]] * 2), "Scalar"], ["", "", "1"]
        shapes: list[Shape] = [[elements], [elements], []]
        return _call("aten::add", f"{kernel}: {self.label}", shapes, types, values, layers * self.seconds)


def as_one(work: Sequence[SimulatedWork]) -> list[SimulatedWork]:
    """All that a pass does as the largest of its matmuls, with as many rows as have the FLOPs of everything."""
    products = [simulated_work for simulated_work in work if isinstance(simulated_work, MatmulCall)]
    if not products:
        return list(work)
    largest = max(products, key=lambda product: product.flops)
    rows = sum(simulated_work.flops for simulated_work in work) / (2 * largest.k * largest.n)
    whole = replace(largest, label="and all else", rows=rows, role=Role.FORWARD, matrices=1, routed=False)
    return [replace(whole, seconds=sum(simulated_work.seconds for simulated_work in work))]


def _whole(layers: float) -> int:
    """How many layers there are; 0 where they are not whole ones."""
    return round(layers) if layers >= 1 and abs(layers - round(layers)) < 1e-6 else 0


def _call(
    name: str, kernel: str, shapes: Sequence[Shape], types: list[str], values: list[str], seconds: float
) -> SimulatedCall:
    texts = (json.dumps(recorded) for recorded in (shapes, types, values))
    shapes_text, types_text, values_text = texts
    return SimulatedCall(
        name=name, kernel=kernel, shapes=shapes_text, dtypes=types_text, values=values_text, seconds=seconds
    )


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
        """Tokens of a micro-batch on one device."""
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
    """A piece that moves as many bytes as memory does in that time."""
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
