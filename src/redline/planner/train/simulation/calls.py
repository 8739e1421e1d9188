"""Calls of operators as a trace shows them: name, shapes and types of what goes in, so that their work is known.

One call stands for one or several equal layers. Whole layers are a dimension of their own, so that FLOPs and bytes are
those of all; a part of a layer has as many fewer rows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

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
    """Of scores that go through memory, or its gradient."""

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
