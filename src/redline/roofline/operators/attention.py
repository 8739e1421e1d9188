"""Attention: two products in the forward pass, five in the backward pass, over the pairs that a causal mask leaves.

A causal mask and a window are known beforehand: pairs that they hide are no work. A mask that is a tensor is data, and
hides nothing.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from redline.roofline.arguments import OperatorCall, Tensor, UnknownWorkError
from redline.roofline.sizes import Work
from redline.values import dataclass

_NO_MASK, _TOP_LEFT, _BOTTOM_RIGHT = "0", "1", "2"  # of memory-efficient attention's custom_mask_type


class Corner(Enum):
    """Where the diagonal of a causal mask begins where queries and keys differ in number."""

    TOP_LEFT = 1
    BOTTOM_RIGHT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionArguments:
    """Where an operator takes its arguments; None where it has no such argument."""

    causal: int
    query: int = 0  # key and value follow it
    heads_first: bool = True  # (batch, heads, length, size), or (batch, length, heads, size)
    corner: Corner = Corner.TOP_LEFT
    bias: int | None = None
    cumulative: int | None = None  # of queries, keys follow: packed sequences
    longest: int | None = None
    window: int | None = None  # left, right follows
    data: tuple[int, ...] = ()  # tensors that decide how much is computed
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one attention; `sequences` have the same lengths."""

    sequences: int
    heads: int
    queries: int
    keys: int
    size: int  # of a query or key
    value_size: int


def _clamped_sum(first: int, count: int, high: int) -> int:
    """The sum of `first`, `first` + 1, ... over `count` terms, each clamped to 0 and `high`."""

    def up_to(last: int) -> int:
        within = max(0, min(last, high))
        return within * (within + 1) // 2 + max(0, last - high) * high

    return up_to(first + count - 1) - up_to(first - 1)


def visible_pairs(queries: int, keys: int, shift: int, left: int | None, right: int | None) -> int:
    """Pairs where a key is at most `left` before and `right` after its query, which is moved by `shift`."""
    ends = queries * keys if right is None else _clamped_sum(shift + right + 1, queries, keys)
    begins = 0 if left is None else _clamped_sum(shift - left, queries, keys)
    return max(0, ends - begins)


def _rule(places: AttentionArguments) -> Callable[[OperatorCall], Work]:
    def rate(call: OperatorCall) -> Work:
        _refuse_data(call, places)
        left, right = _window(call, places.window)
        if call.flag(places.causal):
            right = 0
        return _rate(call, places, _Mask(places.corner, left, right))

    return rate


def _refuse_data(call: OperatorCall, places: AttentionArguments) -> None:
    """Lengths and pages in tensors are data."""
    if any(call.optional(place) is not None for place in places.data):
        raise UnknownWorkError


@dataclass(frozen=True, slots=True)
class _Mask:
    corner: Corner
    left: int | None
    right: int | None


def _rate(call: OperatorCall, places: AttentionArguments, mask: _Mask) -> Work:
    query, key, value = (call.tensor(places.query + place) for place in range(3))
    sizes = (_dense if len(query.shape) == 4 else _packed)(call, places, (query, key, value))
    shift = sizes.keys - sizes.queries if mask.corner is Corner.BOTTOM_RIGHT else 0
    pairs = visible_pairs(sizes.queries, sizes.keys, shift, mask.left, mask.right)
    # Backward: the scores again, the gradients of query and key; those of the value and of the weights.
    products, value_products = (3, 2) if places.backward else (1, 1)
    per_pair = products * sizes.size + value_products * sizes.value_size
    return Work(
        flops=2 * sizes.sequences * sizes.heads * pairs * per_pair,
        bytes=_traffic(call, places, (query, key, value), sizes),
        dtype=query.dtype.label,
        family="attention",
    )


def _traffic(
    call: OperatorCall, places: AttentionArguments, inputs: tuple[Tensor, Tensor, Tensor], sizes: Sizes
) -> int:
    """Inputs and results. The statistics of the softmax, a small part of them, are left out."""
    query, key, value = inputs
    bias = call.optional(places.bias) if places.bias is not None else None
    result = sizes.sequences * sizes.heads * sizes.queries * sizes.value_size * query.dtype.size_bytes
    read = query.size_bytes + key.size_bytes + value.size_bytes + (0 if bias is None else bias.size_bytes)
    if not places.backward:
        return read + result
    gradients = (query.elements + key.elements + value.elements) * query.dtype.size_bytes
    return read + 2 * result + gradients  # the result and its gradient are read


def _dense(call: OperatorCall, places: AttentionArguments, inputs: tuple[Tensor, Tensor, Tensor]) -> Sizes:
    """Every sequence has the recorded length."""
    if places.cumulative is not None and call.optional(places.cumulative) is not None:
        raise UnknownWorkError
    heads, length = (1, 2) if places.heads_first else (2, 1)
    query, key, value = (tensor.shape for tensor in inputs)
    if not len(query) == len(key) == len(value) == 4 or not query[0] == key[0] == value[0]:
        raise UnknownWorkError
    return _checked(
        Sizes(query[0], query[heads], query[length], key[length], query[3], value[3]),
        key_heads=key[heads],
        value_heads=value[heads],
        agree=key[length] == value[length] and query[3] == key[3],
    )


def _packed(call: OperatorCall, places: AttentionArguments, inputs: tuple[Tensor, Tensor, Tensor]) -> Sizes:
    """Sequences one after another. Their lengths are data; they are known where all must be as long as the longest."""
    query, key, value = (tensor.shape for tensor in inputs)
    if places.cumulative is None or places.longest is None or not len(query) == len(key) == len(value) == 3:
        raise UnknownWorkError
    ends, key_ends = call.tensor(places.cumulative, 1), call.tensor(places.cumulative + 1, 1)
    longest, longest_key = call.integer(places.longest), call.integer(places.longest + 1)
    sequences = ends.shape[0] - 1
    if sequences < 1 or query[0] != sequences * longest or key[0] != sequences * longest_key:
        raise UnknownWorkError
    return _checked(
        Sizes(sequences, query[1], longest, longest_key, query[2], value[2]),
        key_heads=key[1],
        value_heads=value[1],
        agree=key[0] == value[0] and query[2] == key[2] and ends.shape == key_ends.shape,
    )


def _checked(sizes: Sizes, *, key_heads: int, value_heads: int, agree: bool) -> Sizes:
    """Several heads of queries may share one of keys and values."""
    if not agree or not key_heads or key_heads != value_heads or sizes.heads % key_heads:
        raise UnknownWorkError
    return sizes


def _window(call: OperatorCall, place: int | None) -> tuple[int | None, int | None]:
    """How far a query sees to the left and to the right; -1 or nothing: all the way."""
    if place is None:
        return None, None
    widths = [call.integer(index) if call.value(index) else -1 for index in (place, place + 1)]
    left, right = (None if width < 0 else width for width in widths)
    return left, right


def _efficient(places: AttentionArguments) -> Callable[[OperatorCall], Work]:
    """Memory-efficient attention, whose mask is a number."""

    def rate(call: OperatorCall) -> Work:
        _refuse_data(call, places)
        # In the forward pass the number follows the dropout probability, whose place changed between versions.
        place = places.causal if places.backward else _first_fraction(call) + 1
        kind = call.value(place)
        if kind not in {_NO_MASK, _TOP_LEFT, _BOTTOM_RIGHT} or _has_window(call, places):
            raise UnknownWorkError
        corner = Corner.BOTTOM_RIGHT if kind == _BOTTOM_RIGHT else Corner.TOP_LEFT
        return _rate(call, places, _Mask(corner, None, None if kind == _NO_MASK else 0))

    return rate


def _first_fraction(call: OperatorCall) -> int:
    for place, text in enumerate(call.values):
        if "." in text or "e" in text:
            return place
    raise UnknownWorkError


def _has_window(call: OperatorCall, places: AttentionArguments) -> bool:
    last = len(call.values) - 1
    return call.value(last if not places.backward else 18) not in {"", "0"} and last >= 13


def _cudnn(call: OperatorCall) -> Work:
    """Older versions had no bias before the other arguments."""
    newer = len(call.types) > 7
    return _rule(AttentionArguments(bias=3, causal=6) if newer else AttentionArguments(causal=4))(call)


_FLASH = AttentionArguments(
    causal=8, heads_first=False, corner=Corner.BOTTOM_RIGHT, cumulative=3, longest=5, window=11, data=(13, 15)
)
_FLASH_BACKWARD = AttentionArguments(
    query=1,
    causal=11,
    heads_first=False,
    corner=Corner.BOTTOM_RIGHT,
    cumulative=6,
    longest=8,
    window=15,
    backward=True,
)
_EFFICIENT = AttentionArguments(causal=9, heads_first=False, bias=3, data=(4, 5, 11, 12))
_EFFICIENT_BACKWARD = AttentionArguments(query=1, causal=14, heads_first=False, bias=4, data=(6, 7), backward=True)

# The operators of the flash-attn package, 2.7 and newer.
_PACKAGE = AttentionArguments(causal=5, heads_first=False, corner=Corner.BOTTOM_RIGHT, window=6)
_PACKAGE_BACKWARD = AttentionArguments(
    query=1, causal=11, heads_first=False, corner=Corner.BOTTOM_RIGHT, window=12, backward=True
)
_PACKAGE_PACKED = AttentionArguments(
    causal=9, heads_first=False, corner=Corner.BOTTOM_RIGHT, cumulative=3, longest=5, window=10, data=(15,)
)
_PACKAGE_PACKED_BACKWARD = AttentionArguments(
    query=1,
    causal=15,
    heads_first=False,
    corner=Corner.BOTTOM_RIGHT,
    cumulative=9,
    longest=11,
    window=16,
    backward=True,
)

ATTENTION_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::scaled_dot_product_attention": _rule(AttentionArguments(bias=3, causal=5)),
    "aten::_scaled_dot_product_attention_math": _rule(AttentionArguments(bias=3, causal=5)),
    "aten::_scaled_dot_product_flash_attention": _rule(AttentionArguments(causal=4)),
    "aten::_scaled_dot_product_flash_attention_backward": _rule(AttentionArguments(query=1, causal=11, backward=True)),
    "aten::_flash_attention_forward": _rule(_FLASH),
    "aten::_flash_attention_backward": _rule(_FLASH_BACKWARD),
    "aten::_scaled_dot_product_efficient_attention": _rule(AttentionArguments(bias=3, causal=6)),
    "aten::_scaled_dot_product_efficient_attention_backward": _rule(
        AttentionArguments(query=1, bias=4, causal=11, backward=True)
    ),
    "aten::_efficient_attention_forward": _efficient(_EFFICIENT),
    "aten::_efficient_attention_backward": _efficient(_EFFICIENT_BACKWARD),
    "aten::_scaled_dot_product_cudnn_attention": _cudnn,
    "aten::_scaled_dot_product_cudnn_attention_backward": _rule(
        AttentionArguments(query=1, bias=8, causal=14, backward=True)
    ),
    "aten::_cudnn_attention_forward": _rule(AttentionArguments(bias=3, causal=10, data=(4, 5))),
    "aten::_cudnn_attention_backward": _rule(
        AttentionArguments(query=1, bias=8, causal=14, data=(9, 10), backward=True)
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _rule(AttentionArguments(bias=5, causal=4)),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _rule(
        AttentionArguments(query=1, bias=8, causal=7, backward=True)
    ),
    "aten::_scaled_dot_product_fused_attention_overrideable": _rule(AttentionArguments(bias=3, causal=5)),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _rule(
        AttentionArguments(query=1, bias=4, causal=13, backward=True)
    ),
    "flash_attn::_flash_attn_forward": _rule(_PACKAGE),
    "flash_attn::_flash_attn_backward": _rule(_PACKAGE_BACKWARD),
    "flash_attn::_flash_attn_varlen_forward": _rule(_PACKAGE_PACKED),
    "flash_attn::_flash_attn_varlen_backward": _rule(_PACKAGE_PACKED_BACKWARD),
}
