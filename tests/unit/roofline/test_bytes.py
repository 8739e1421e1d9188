"""Bytes of operators, worked out by hand: each input read once, each result written once."""

import json
from collections.abc import Sequence

import pytest

from redline.roofline.dtypes import BF16, FP32, of_list_kernel
from redline.roofline.roofline import work_of
from redline.roofline.sizes import Work

F, H, B, L, BOOL = "float", "c10::Half", "c10::BFloat16", "long int", "bool"
S, SL, TL, NONE = "Scalar", "ScalarList", "TensorList", ""

Argument = tuple[Sequence[object], str] | tuple[Sequence[object], str, str]


def rate(name: str, *arguments: Argument, strides: object = None, kernel: str = "") -> Work | None:
    """The work of a call whose arguments are (shape, type) or (shape, type, value)."""
    return work_of(
        name,
        json.dumps([argument[0] for argument in arguments]),
        json.dumps([argument[1] for argument in arguments]),
        "" if strides is None else json.dumps(strides),
        json.dumps([argument[2] if len(argument) > 2 else "" for argument in arguments]),
        kernel_name=kernel,
    )


def scalar(value: object) -> Argument:
    return ([], S, str(value))


def listed(value: object) -> Argument:
    return ([], SL, str(value))


NOTHING: Argument = ([], NONE, "")
K = 1024

HAND_COUNTED: dict[str, tuple[Work | None, int]] = {
    # matrix products
    "mm": (rate("aten::mm", ([2, 3], F), ([3, 5], F)), 4 * (6 + 15 + 10)),
    "mm into fp32": (rate("aten::mm", ([2, 3], H), ([3, 5], H), scalar(6)), 2 * (6 + 15) + 4 * 10),
    "addmm": (rate("aten::addmm", ([5], F), ([2, 3], F), ([3, 5], F), scalar(1), scalar(1)), 4 * (5 + 6 + 15 + 10)),
    "addmm with beta 0": (
        rate("aten::addmm", ([5], F), ([2, 3], F), ([3, 5], F), scalar(0), scalar(1)),
        4 * (6 + 15 + 10),
    ),
    "addmm of a broadcast bias": (
        rate(
            "aten::addmm",
            ([2, 5], F),
            ([2, 3], F),
            ([3, 5], F),
            scalar(1),
            scalar(1),
            strides=[[0, 1], [3, 1], [5, 1], [], []],
        ),
        4 * (5 + 6 + 15 + 10),
    ),
    "addmm in place": (
        rate("aten::addmm_", ([2, 5], F), ([2, 3], F), ([3, 5], F), scalar(1), scalar(1)),
        4 * (10 + 6 + 15 + 10),
    ),
    "fp8 matmul into bf16": (
        rate(
            "aten::_scaled_mm",
            ([16, 32], "c10::Float8_e4m3fn"),
            ([32, 48], "c10::Float8_e4m3fn"),
            ([], F),
            ([], F),
            NOTHING,
            NOTHING,
            scalar(15),
            scalar("False"),
        ),
        16 * 32 + 32 * 48 + 2 * 4 + 2 * 16 * 48,
    ),
    "matmul with a packed weight": (
        rate("_C::onednn_mm", ([8, 16], B), ([8, 32], B), NOTHING, ([], L)),
        2 * (8 * 16 + 8 * 32 + 32 * 16),
    ),
    "matmul with a packed weight and a bias": (
        rate("_C::onednn_mm", ([8, 16], B), ([8, 32], B), ([16], B), ([], L)),
        2 * (8 * 16 + 8 * 32 + 32 * 16 + 16),
    ),
    "int8 matmul": (rate("aten::_int_mm", ([2, 3], "signed char"), ([3, 5], "signed char")), 6 + 15 + 4 * 10),
    # convolutions
    "convolution": (
        rate(
            "aten::cudnn_convolution",
            ([2, 4, 9, 9], F),
            ([6, 4, 3, 3], F),
            listed([0, 0]),
            listed([2, 2]),
            listed([1, 1]),
            scalar(1),
            scalar("False"),
            scalar("False"),
            scalar("True"),
        ),
        4 * (2 * 4 * 81 + 6 * 4 * 9 + 2 * 6 * 16),
    ),
    "gradient of the data, size not recorded": (
        rate("aten::cudnn_convolution_backward_input", ([], "GenericList"), ([2, 6, 4, 4], F), ([6, 4, 3, 3], F)),
        4 * (2 * 6 * 16 + 6 * 4 * 9),
    ),
    # attention
    "attention": (
        rate(
            "aten::_flash_attention_forward",
            *[([2, 16, 4, 8], B)] * 3,
            NOTHING,
            NOTHING,
            scalar(16),
            scalar(16),
            scalar("0."),
            scalar("True"),
            scalar("False"),
            scalar(0.125),
        ),
        2 * 4 * (2 * 16 * 4 * 8),
    ),
    "attention with shared keys": (
        rate(
            "aten::_scaled_dot_product_flash_attention",
            ([2, 8, 16, 4], B),
            ([2, 2, 16, 4], B),
            ([2, 2, 16, 4], B),
            scalar("0."),
            scalar("False"),
            scalar("False"),
        ),
        2 * (2 * 2 * 8 * 16 * 4 + 2 * 2 * 2 * 16 * 4),
    ),
    # element by element
    "add": (rate("aten::add", ([8, 8], F), ([8, 8], F), scalar(1)), 4 * 3 * 64),
    "add that stretches": (rate("aten::add", ([8, 1], F), ([8], F), scalar(1)), 4 * (8 + 8 + 64)),
    "add of an expanded tensor": (
        rate("aten::add", ([8, 8], F), ([8, 8], F), scalar(1), strides=[[8, 1], [0, 1], []]),
        4 * (64 + 8 + 64),
    ),
    "add in place": (rate("aten::add_", ([8, 8], F), ([8], F), scalar(1)), 4 * (64 + 8 + 64)),
    "add into out": (rate("aten::add", ([8], F), ([8], F), scalar(1), ([0], F)), 4 * 24),
    "mul with a number": (rate("aten::mul", ([8, 8], B), ([], "double")), 2 * 128 + 8),
    "mul of two types": (rate("aten::mul", ([8], B), ([8], F)), 2 * 8 + 4 * 8 + 4 * 8),
    "half and bfloat16 make float": (rate("aten::mul", ([8], B), ([8], H)), (2 + 2 + 4) * 8),
    "integers and a fraction make float": (rate("aten::mul", ([8], L), scalar(0.5)), 8 * 8 + 4 * 8),
    "division of integers": (rate("aten::div", ([8], L), ([8], L)), 2 * 8 * 8 + 4 * 8),
    "comparison": (rate("aten::gt", ([8], F), scalar(0)), 4 * 8 + 8),
    "where": (rate("aten::where", ([8, 8], BOOL), ([8, 8], F), ([], F)), 64 + 4 * 64 + 4 + 4 * 64),
    "masked fill in place": (
        rate("aten::masked_fill_", ([8, 8], F), ([8], BOOL), scalar(0)),
        4 * 64 + 8 + 4 * 64,
    ),
    "clamp": (rate("aten::clamp_min", ([8], F), scalar(0), ([8], F)), 4 * 16),
    "gelu": (rate("aten::gelu", ([8], B), NOTHING), 2 * 16),
    "gelu backward": (rate("aten::gelu_backward", ([8], B), ([8], B), NOTHING), 2 * 24),
    "relu backward": (rate("aten::threshold_backward", ([8], F), ([8], F), scalar(0)), 4 * 24),
    "addcmul in place": (rate("aten::addcmul_", ([8], F), ([8], F), ([8], F), scalar(1)), 4 * 32),
    "dropout": (rate("aten::native_dropout", ([8], F), scalar(0.5), scalar("True")), 4 * 16 + 8),
    # copies
    "copy to another type": (rate("aten::copy_", ([8, 8], B), ([8, 8], F), scalar("False")), 6 * 64),
    "copy of an expanded tensor": (
        rate("aten::copy_", ([8, 8], F), ([8, 8], F), scalar("False"), strides=[[8, 1], [1, 0], []]),
        4 * (64 + 8),
    ),
    "copy of overlapping windows": (
        rate("aten::copy_", ([6, 3], F), ([6, 3], F), scalar("False"), strides=[[3, 1], [1, 1], []]),
        4 * (18 + 8),
    ),
    "fill": (rate("aten::fill_", ([8, 8], B), scalar(0)), 2 * 64),
    "cat, type from out": (rate("aten::cat", ([[8, 2], [8, 3]], TL), scalar(1), ([0], B)), 2 * 2 * 40),
    "cat, type from the kernel": (
        rate(
            "aten::cat", ([[8, 2], [8, 3]], TL), scalar(1), kernel="CatArrayBatchedCopy<OpaqueType<4u>, unsigned int>"
        ),
        2 * 4 * 40,
    ),
    # reductions
    "sum": (rate("aten::sum", ([8, 4], F), NOTHING), 4 * (32 + 1)),
    "sum of rows": (rate("aten::sum", ([8, 4], F), listed([-1]), scalar("False"), NOTHING), 4 * (32 + 8)),
    "sum of bools": (rate("aten::sum", ([8, 4], BOOL), listed([1]), scalar("False"), NOTHING), 32 + 8 * 8),
    "mean into fp32": (rate("aten::mean", ([8, 4], B), listed([0]), scalar("True"), scalar(6)), 2 * 32 + 4 * 4),
    "max along": (rate("aten::max", ([8, 4], F), scalar(1), scalar("False")), 4 * 32 + 8 * (4 + 8)),
    "max of two": (rate("aten::max", ([8], F), ([8], F)), 4 * 24),
    "argmax": (rate("aten::argmax", ([8, 4], F), scalar(-1), scalar("False")), 4 * 32 + 8 * 8),
    "any": (rate("aten::any", ([8, 4], BOOL)), 32 + 1),
    "cumsum": (rate("aten::cumsum", ([8], "int"), scalar(0), NOTHING), 4 * 8 + 8 * 8),
    "topk": (
        rate("aten::topk", ([8, 64], F), scalar(2), scalar(-1), scalar("True"), scalar("True")),
        4 * 512 + 16 * (4 + 8),
    ),
    # norms and softmax
    "layer norm": (
        rate("aten::native_layer_norm", ([4, K], B), listed([K]), ([K], B), ([K], B), scalar(1e-5)),
        2 * (2 * 4 * K + 2 * K),
    ),
    "layer norm backward": (
        rate(
            "aten::native_layer_norm_backward",
            ([4, K], F),
            ([4, K], F),
            listed([K]),
            ([4, 1], F),
            ([4, 1], F),
            ([K], F),
            ([K], F),
            listed([True, True, False]),
        ),
        4 * (2 * 4 * K + 8 + 2 * K + 4 * K + K),
    ),
    "batch norm backward without weights": (
        rate(
            "aten::native_batch_norm_backward",
            ([2, 4, 3, 3], F),
            ([2, 4, 3, 3], F),
            NOTHING,
            *[([4], F)] * 4,
            scalar("True"),
            scalar(1e-5),
            listed([True, False, False]),
        ),
        4 * (3 * 72 + 16),
    ),
    "softmax": (rate("aten::_softmax", ([8, 8], B), scalar(-1), scalar("False")), 2 * 128),
    "softmax of half to float": (rate("aten::_softmax", ([8, 8], B), scalar(-1), scalar("True")), 6 * 64),
    "softmax backward": (
        rate("aten::_softmax_backward_data", ([8, 8], F), ([8, 8], F), scalar(-1), scalar(15)),
        4 * 128 + 2 * 64,
    ),
    "nll loss": (
        rate("aten::nll_loss_forward", ([8, K], F), ([8], L), NOTHING, scalar(1), scalar(-100)),
        4 * (8 + 1) + 8 * 8,
    ),
    "mse loss": (rate("aten::mse_loss", ([8], F), ([8], F), scalar(1)), 4 * 17),
    # pooling and resampling
    "max pool": (
        rate(
            "aten::max_pool2d_with_indices",
            ([1, 2, 8, 8], F),
            listed([3, 3]),
            listed([2, 2]),
            listed([1, 1]),
            listed([1, 1]),
            scalar("False"),
        ),
        4 * 128 + (4 + 8) * 2 * 16,
    ),
    "average pool with its window as stride": (
        rate(
            "aten::avg_pool2d",
            ([1, 2, 8, 8], F),
            listed([2, 2]),
            listed([]),
            listed([0, 0]),
            scalar("False"),
            scalar("True"),
            NOTHING,
        ),
        4 * (128 + 32),
    ),
    "upsampling": (
        rate("aten::upsample_bilinear2d", ([1, 2, 8, 8], F), listed([16, 16]), scalar("False"), NOTHING, NOTHING),
        4 * (128 + 512),
    ),
    # by index
    "embedding": (
        rate("aten::embedding", ([K, 16], B), ([2, 3], L), scalar(-1), scalar("False"), scalar("False")),
        2 * (6 * 16) * 2 + 8 * 6,
    ),
    "embedding of a small table": (
        rate("aten::embedding", ([2, 16], B), ([K], L), scalar(-1), scalar("False"), scalar("False")),
        2 * (2 * 16) + 2 * K * 16 + 8 * K,
    ),
    "embedding backward": (
        rate("aten::embedding_dense_backward", ([2, 3, 16], B), ([2, 3], L), scalar(K), scalar(-1), scalar("False")),
        2 * (6 * 16 + K * 16) + 8 * 6,
    ),
    "gather": (rate("aten::gather", ([8, K], F), scalar(1), ([8, 2], L), scalar("False")), (4 + 8 + 4) * 16),
    "scatter add": (rate("aten::scatter_add_", ([K], F), scalar(0), ([8], L), ([8], F)), 8 * (8 + 4 + 2 * 4)),
    # lists
    "foreach add in place": (
        rate("aten::_foreach_add_", ([[8], [4]], TL), ([[8], [4]], TL), scalar(1), kernel="Functor<float, 2, 2, 0>"),
        4 * 3 * 12,
    ),
    "fused adam": (
        rate(
            "aten::_fused_adam_",
            *[([[8], [4]], TL)] * 4,
            ([], TL),
            ([[], []], TL),
            kernel="multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4, false>>",
        ),
        4 * 7 * 12,
    ),
    # compiled
    "triton": (
        rate("triton_poi_fused_add_0", ([8, 8], F), ([8, 8], F), ([8, 8], F), scalar(64)),
        4 * 3 * 64,
    ),
    "triton that gathers": (
        rate("triton_poi_fused_embedding_0", ([6], L), ([K, 16], F), ([6, 16], F), scalar(96)),
        8 * 6 + 4 * 2 * 96,
    ),
    # engines
    "new keys and values into their cache": (
        rate(
            "_C::cpu_attn_reshape_and_cache",
            *[([8, 2, 64], B)] * 2,
            *[([4096, 2, 128, 64], B)] * 2,
            ([8], L),
            NOTHING,
        ),
        2 * 2 * 2 * 8 * 2 * 64 + 8 * 8,
    ),
    "slots of positions": (
        rate("_C::compute_slot_mapping_kernel_impl", ([9], "int"), ([8], L), ([8, 4], "int"), ([512], L), scalar(128)),
        4 * 9 + 8 * 8 + 4 * 32 + 8 * 8,
    ),
    "the largest logit": (rate("_C::greedy_argmax", ([8, 1024], F)), 4 * 8 * 1024),
    "silu and mul": (rate("_C::silu_and_mul", ([8, 16], B), ([8, 32], B)), 2 * 8 * 48),
    "fused add and rms norm": (
        rate("_C::fused_add_rms_norm", ([8, 16], B), ([8, 16], B), ([16], B), scalar(1e-5)),
        2 * (4 * 128 + 16),
    ),
    "rotary embedding": (
        rate(
            "_C::rotary_embedding",
            ([4], L),
            ([4, 128], B),
            ([4, 64], B),
            scalar(64),
            ([K, 64], B),
            scalar("True"),
        ),
        2 * 2 * 4 * 192 + 2 * 4 * 64 + 8 * 4,
    ),
}


@pytest.mark.parametrize("name", HAND_COUNTED)
def test_bytes(name: str) -> None:
    work, expected = HAND_COUNTED[name]
    assert work is not None
    assert work.bytes == expected


UNKNOWN: dict[str, Work | None] = {
    "forward convolution without its settings": work_of(
        "aten::cudnn_convolution",
        "[[2, 4, 9, 9], [6, 4, 3, 3], [], [], [], [], [], [], []]",
        '["float", "float", "GenericList", "GenericList", "GenericList", "Int", "Bool", "Bool", "Bool"]',
    ),
    "convolution with padding by name": rate(
        "aten::conv2d",
        ([2, 4, 9, 9], F),
        ([6, 4, 3, 3], F),
        NOTHING,
        listed([1, 1]),
        scalar("same"),
        listed([1, 1]),
        scalar(1),
    ),
    "weight gradient without the size of the weights": work_of(
        "aten::cudnn_convolution_backward_weight",
        "[[], [32, 64, 56, 56], [32, 64, 56, 56], [], [], [], [], [], [], []]",
        json.dumps(["GenericList", F, F, *["GenericList"] * 3, "Int", *["Bool"] * 3]),
    ),
    "attention without its flags": work_of(
        "aten::_scaled_dot_product_flash_attention",
        "[[2, 8, 16, 4], [2, 8, 16, 4], [2, 8, 16, 4], [], [], []]",
        json.dumps([B, B, B, S, S, S]),
    ),
    "packed sequences of unequal lengths": rate(
        "aten::_flash_attention_forward",
        *[([20, 4, 8], B)] * 3,
        ([3], "int"),
        ([3], "int"),
        scalar(16),
        scalar(16),
        scalar("0."),
        scalar("True"),
        scalar("False"),
        NOTHING,
    ),
    "sum without its dimensions": work_of("aten::sum", "[[8, 4], [], [], []]", json.dumps([F, NONE, S, NONE])),
    "index, whose indices are not recorded": rate("aten::index", ([8, 8], F), NOTHING),
    "cat of tensors whose type nothing tells": rate("aten::cat", ([[8], [8]], TL), scalar(0)),
    "cat of more tensors than are recorded": rate("aten::cat", ([], TL), scalar(0), ([0], F)),
    "foreach of more tensors than are recorded": rate(
        "aten::_foreach_add_", ([], TL), ([], TL), scalar(1), kernel="Functor<float, 2>"
    ),
    "grouped product, whose offsets are data": rate("aten::_grouped_mm", ([64, 8], B), ([4, 8, 16], B), ([4], "int")),
    "template whose arguments do not fit": rate("triton_tem_fused_mm_0", ([8, 4], F), ([16, 4], F), ([8, 16], F)),
    "compiled kernel without its sizes": rate("triton_poi_fused_add_0", ([8], F), ([8], F)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_recorded_is_not_known(name: str) -> None:
    assert UNKNOWN[name] is None


def test_types_and_families() -> None:
    work = rate("aten::mm", ([2, 3], "c10::Float4_e2m1fn_x2"), ([3, 5], "c10::Float4_e2m1fn_x2"), scalar(15))
    assert work == Work(flops=2 * 2 * 5 * 6, bytes=6 + 15 + 2 * 10, dtype="fp4", family="matmul")
    integers = rate("aten::add", ([8], L), ([8], L), scalar(1))
    assert integers == Work(flops=0, bytes=8 * 24, dtype="", family="elementwise")


def test_packed_sequences_that_are_all_as_long_as_the_longest() -> None:
    packed = rate(
        "flash_attn::_flash_attn_varlen_forward",
        ([32, 4, 8], B),
        ([48, 2, 8], B),
        ([48, 2, 8], B),
        ([3], "int"),
        ([3], "int"),
        scalar(16),
        scalar(24),
        scalar("0."),
        scalar(0.3),
        scalar("True"),
        scalar(-1),
        scalar(-1),
    )
    assert packed is not None
    # The last query sees all 24 keys, the first only 9.
    assert packed.flops == 2 * 2 * 4 * sum(range(9, 25)) * (8 + 8)


def test_a_sliding_window_is_less_work() -> None:
    def attention(left: int) -> int:
        settings = [scalar("0."), scalar(0.3), scalar("True"), scalar(left), scalar(-1)]
        work = rate("flash_attn::_flash_attn_forward", *[([1, 16, 2, 8], B)] * 3, *settings)
        assert work is not None
        return work.flops

    assert attention(-1) == 2 * 2 * sum(range(1, 17)) * 16
    assert attention(3) == 2 * 2 * (1 + 2 + 3 + 13 * 4) * 16


@pytest.mark.parametrize("kind", ["0", "1", "2"])
def test_masks_of_memory_efficient_attention(kind: str) -> None:
    """The place of the mask's number changed between versions."""
    shapes: list[Argument] = [([1, 4, 2, 8], F), ([1, 6, 2, 8], F), ([1, 6, 2, 8], F)]
    pairs = {"0": 24, "1": 1 + 2 + 3 + 4, "2": 3 + 4 + 5 + 6}[kind]
    for absent in (4, 5):
        rest = [NOTHING] * absent + [scalar("0."), scalar(kind), scalar("False"), NOTHING, NOTHING, NOTHING]
        work = rate("aten::_efficient_attention_forward", *shapes, *rest)
        assert work is not None
        assert work.flops == 2 * 2 * pairs * 16


def test_a_matmul_template_whose_arguments_fit() -> None:
    work = rate("triton_tem_fused_addmm_0", ([8, 4], B), ([4, 16], B), ([16], B), ([8, 16], B))
    assert work == Work(flops=2 * 8 * 4 * 16, bytes=2 * (32 + 64 + 16 + 128), dtype="bf16", family="matmul")


def test_the_type_of_a_list_from_names_of_kernels() -> None:
    prefix = "void at::native::(anonymous namespace)::"
    names = {
        f"{prefix}multi_tensor_apply_kernel<{prefix[5:]}TensorListMetadata<2>, "
        f"{prefix[5:]}BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, int>": BF16,
        f"{prefix}multi_tensor_apply_kernel<{prefix[5:]}TensorListScalarListMetadata<float, 3>, "
        f"{prefix[5:]}PointwiseOpScalarListFunctor<float, 3, 3, 0>, std::divides<float>>": FP32,
        f"{prefix}CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>": FP32,
        f"{prefix}multi_tensor_apply_kernel<{prefix[5:]}CopyFunctor<int, long, 2, 1, 1>": None,
        "attn_fwd": None,
    }
    assert {name: of_list_kernel(name) for name in names} == names
    opaque = of_list_kernel(
        f"{prefix}CatArrayBatchedCopy_aligned16_contig<{prefix[5:]}OpaqueType<2u>, unsigned int, 2>"
    )
    assert opaque is not None
    assert opaque.size_bytes == 2
