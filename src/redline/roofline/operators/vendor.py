"""Kernels beside PyTorch's own: of inference engines and libraries, and those that torch.compile makes."""

from collections.abc import Callable, Mapping
from math import prod

from redline.roofline.arguments import OperatorCall, Tensor, UnknownWorkError
from redline.roofline.dtypes import FP32, UINT8
from redline.roofline.sizes import Work, bytes_of, dense, like, moved

TRITON_PREFIX = "triton_"

_POINTWISE = "poi"
_REDUCTIONS = ("per", "red")
_TEMPLATE = "tem"


def rate_triton(call: OperatorCall) -> Work:
    kind = call.name.removeprefix(TRITON_PREFIX).partition("_")[0]
    if kind == _TEMPLATE:
        return _product(call)
    if kind == _POINTWISE or kind in _REDUCTIONS:
        return _fused(call)
    raise UnknownWorkError


def _fused(call: OperatorCall) -> Work:
    """Each argument once, at most one element for each step of the kernel's loops.

    That bound keeps a gathered table or a slice from counting as a whole. Which arguments are read and written both is
    not recorded, so that those count once.
    """
    if not call.tensors:
        raise UnknownWorkError
    steps = _steps(call)
    largest = max(call.tensors, key=lambda tensor: tensor.size_bytes)
    total = sum(min(tensor.distinct_elements, steps) * tensor.dtype.size_bytes for tensor in call.tensors)
    return Work(flops=0, bytes=total, dtype=largest.dtype.label, family="triton")


def _steps(call: OperatorCall) -> int:
    """The product of the sizes of the loops, which are the scalars after the tensors."""
    last = max(place for place, argument in enumerate(call.arguments) if isinstance(argument, Tensor))
    sizes = [call.integer(place) for place in range(last + 1, len(call.types)) if call.value(place)]
    if not sizes or min(sizes) < 0:
        raise UnknownWorkError
    return prod(sizes)


def _product(call: OperatorCall) -> Work:
    """A matmul template, where the arguments can be nothing else: left, right, what is fused, and the result."""
    if "mm" not in call.name or len(call.tensors) < 3:
        raise UnknownWorkError
    left, right, *fused, out = call.tensors
    if not len(left.shape) == len(right.shape) == len(out.shape) == 2 or left.shape[1] != right.shape[0]:
        raise UnknownWorkError
    if out.shape != (left.shape[0], right.shape[1]) or any(tensor.elements > out.elements for tensor in fused):
        raise UnknownWorkError
    return Work(
        flops=2 * out.elements * left.shape[1],
        bytes=bytes_of(call.tensors),
        dtype=left.dtype.label,
        family="matmul",
    )


def _each_once(family: str) -> Callable[[OperatorCall], Work]:
    """Inputs and results are all arguments."""

    def rate(call: OperatorCall) -> Work:
        return moved(family, call.tensor(0).dtype, *call.tensors)

    return rate


def _normed_in_place(call: OperatorCall) -> Work:
    """(data, residual, weight): data becomes the norm of the sum, residual the sum."""
    data, residual = call.tensor(0), call.tensor(1)
    return moved("norm", data.dtype, *call.tensors, data, residual)


def _new_like_first(family: str) -> Callable[[OperatorCall], Work]:
    def rate(call: OperatorCall) -> Work:
        return moved(family, call.tensor(0).dtype, *call.tensors, like(call.tensor(0)))

    return rate


def _rotated(call: OperatorCall) -> Work:
    """(positions, query, key, head size, table of sines): in place, on the part of each head that rotates."""
    positions, query, table = call.tensor(0), call.tensor(1), call.tensor(4, 2)
    key, head = call.optional(2), call.integer(3)
    if not 0 < table.shape[1] <= head:
        raise UnknownWorkError
    turned = 2 * bytes_of((query, key)) * table.shape[1] // head
    angles = min(positions.elements * table.shape[1] * table.dtype.size_bytes, table.size_bytes)
    total = turned + angles + positions.size_bytes
    return Work(flops=0, bytes=total, dtype=query.dtype.label, family="elementwise")


def _into_cache(call: OperatorCall) -> Work:
    """(key, value, cache of keys, cache of values, slots): new tokens are read, and written to their places."""
    key, value = call.tensor(0), call.tensor(1)
    return moved("copy", key.dtype, key, value, like(key), like(value), call.tensor(4))


def _slots(call: OperatorCall) -> Work:
    """(starts of requests, positions, tables of blocks, slots): a slot for each position."""
    positions = call.tensor(1)
    return moved("index", positions.dtype, call.tensor(0), positions, call.tensor(2), like(positions))


def _to_fp8_rows(call: OperatorCall) -> Work:
    """fbgemm: rows padded to 4 bytes, each followed by its scale in 8."""
    data = call.tensor(0, 2)
    rows, columns = data.shape
    return moved("copy", data.dtype, data, dense((rows, -(-columns // 4) * 4 + 8), UINT8))


def _from_fp8_rows(call: OperatorCall) -> Work:
    data = call.tensor(0, 2)
    rows, columns = data.shape
    return moved("copy", data.dtype, data, dense((rows, max(0, columns - 8)), FP32))


def _to_fp8(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved("copy", data.dtype, data, dense(data.shape, UINT8))


def _from_fp8(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved("copy", data.dtype, data, dense(data.shape, FP32))


VENDOR_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **dict.fromkeys(
        (
            "_C::rms_norm",
            "sgl_kernel::rmsnorm",
            "aiter::rmsnorm",
            "aiter::add_rmsnorm",
            "_C::rms_norm_static_fp8_quant",
        ),
        _each_once("norm"),
    ),
    **dict.fromkeys(
        (
            "_C::silu_and_mul",
            "_C::gelu_and_mul",
            "_C::gelu_tanh_and_mul",
            "sgl_kernel::silu_and_mul",
            "sgl_kernel::gelu_and_mul",
            "sgl_kernel::gelu_tanh_and_mul",
        ),
        _each_once("elementwise"),
    ),
    **dict.fromkeys(
        (
            "_C::static_scaled_fp8_quant",
            "_C::dynamic_scaled_fp8_quant",
            "_C::dynamic_per_token_scaled_fp8_quant",
        ),
        _each_once("copy"),
    ),
    "_C::fused_add_rms_norm": _normed_in_place,
    "sgl_kernel::fused_add_rmsnorm": _normed_in_place,
    "_C::rotary_embedding": _rotated,
    "sgl_kernel::rotary_embedding": _rotated,
    "_C::cpu_attn_reshape_and_cache": _into_cache,
    "_C_cache_ops::reshape_and_cache": _into_cache,
    "_C_cache_ops::reshape_and_cache_flash": _into_cache,
    "_C::compute_slot_mapping_kernel_impl": _slots,
    "_C::greedy_argmax": _each_once("reduction"),
    "aiter::_groupnorm_run": _new_like_first("norm"),
    "fbgemm::permute_pooled_embs_auto_grad": _new_like_first("copy"),
    "fbgemm::FloatToFP8RowwiseQuantized": _to_fp8_rows,
    "fbgemm::FP8RowwiseQuantizedToFloat": _from_fp8_rows,
    "fbgemm::FloatToHFP8Quantized": _to_fp8,
    "fbgemm::HFP8QuantizedToFloat": _from_fp8,
}
