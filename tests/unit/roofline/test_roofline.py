"""Least times from figures of a machine; in which type the hardware computes."""

import json
import time
from math import isnan
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redline.hardware.machine import Figure, Machine
from redline.roofline.roofline import RULES, arithmetic_dtype, roof_of, work_of
from redline.roofline.sizes import Work


def figure(value: float) -> Figure:
    return Figure(value=value, source="made up", date="2026-01")


MACHINE = Machine(
    name="made up",
    synthetic=True,
    figures={"peak_flops_per_s.bf16": figure(100e12), "memory_bytes_per_s": figure(1e12)},
)


def work(flops: int = 0, size: int = 0, dtype: str = "bf16", family: str = "matmul") -> Work:
    return Work(flops=flops, bytes=size, dtype=dtype, family=family)


def test_much_arithmetic_is_bound_by_the_peak() -> None:
    roof = roof_of(work(flops=10**9, size=10**3), "bf16", MACHINE)
    assert roof is not None
    assert roof.math_ns == roof.roof_ns == pytest.approx(10_000)
    assert roof.memory_ns == pytest.approx(1)
    assert roof.regime == "compute"


def test_little_arithmetic_is_bound_by_memory() -> None:
    roof = roof_of(work(flops=10**3, size=10**6), "bf16", MACHINE)
    assert roof is not None
    assert roof.roof_ns == pytest.approx(1000)
    assert roof.regime == "memory"


def test_work_without_arithmetic_needs_no_peak() -> None:
    roof = roof_of(work(size=10**6, dtype=""), "", MACHINE)
    assert roof is not None
    assert roof.math_ns == 0
    assert roof.roof_ns == pytest.approx(1000)
    assert roof.regime == "memory"


@pytest.mark.parametrize("dtype", ["fp32", ""])
def test_without_a_peak_there_is_no_roof(dtype: str) -> None:
    roof = roof_of(work(flops=1, size=10**6, dtype=dtype), dtype, MACHINE)
    assert roof is not None
    assert isnan(roof.math_ns)
    assert isnan(roof.roof_ns)
    assert roof.regime == "unknown"


def test_without_a_bandwidth_there_is_nothing_to_say() -> None:
    assert roof_of(work(flops=1), "bf16", Machine(name="unknown")) is None


# Names of kernels as real traces hold them, by the machine that ran them.
COMPUTE_FP32_AS = {
    # A100
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(Params)": "tf32",
    "cutlass_tensorop_s1688dgrad_optimized_tf32_128x64_32x3_nhwc_align4": "tf32",
    "ampere_sgemm_128x64_nn": "fp32",
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)": "fp32",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)": "tf32",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm70(PyTorchMemEffAttention::AttentionKernel<float>)": "fp32",
    # H20
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute": "fp32",
    "sm90_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32": "tf32",
    # V100
    "volta_sgemm_128x32_nt": "fp32",
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": "fp32",
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int)": "fp32",
    # MI250
    "Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0": "fp32",
}


@pytest.mark.parametrize("kernel", COMPUTE_FP32_AS)
def test_what_fp32_is_computed_in(kernel: str) -> None:
    assert arithmetic_dtype(work(flops=1, dtype="fp32"), kernel) == COMPUTE_FP32_AS[kernel]


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", "bf16"),
        ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_relu_f2f_stages_32x1_tn", "bf16"),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn", "fp16"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT320x224x64_MI16x16x1", "bf16"),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "bf16"),
        ("volta_dgemm_64x64_nn", "fp64"),
    ],
)
def test_other_types_are_computed_as_they_are(kernel: str, dtype: str) -> None:
    assert arithmetic_dtype(work(flops=1, dtype=dtype), kernel) == dtype


# Any text is rated or declined, never raised on; what is known gives exact integers.

NAMES = [*RULES, "triton_poi_fused_add_0", "triton_red_fused_sum_1", "triton_tem_fused_mm_2", "triton_", "aten::other"]

# Operators that PyTorch 2.13 no longer has, or that other packages bring.
GONE = {
    "aten::_cat",
    "aten::cudnn_convolution_backward_input",
    "aten::cudnn_convolution_backward_weight",
    "aten::miopen_convolution_backward_input",
    "aten::miopen_convolution_backward_weight",
    "aten::mkldnn_convolution_backward_input",
    "aten::mkldnn_convolution_backward_weights",
}

sizes = st.one_of(st.integers(0, 9), st.integers(-3, 2**70))
shapes = st.lists(st.one_of(sizes, st.lists(sizes, max_size=4), st.none(), st.text(max_size=2)), max_size=5)
types = st.sampled_from(
    [
        "float",
        "c10::BFloat16",
        "long int",
        "bool",
        "c10::Float4_e2m1fn_x2",
        "Scalar",
        "ScalarList",
        "TensorList",
        "",
        "?",
    ]
)
values = st.one_of(
    st.sampled_from(
        ["", "True", "False", "0", "1", "-1", "0.5", "[]", "[1, 1]", "[2]", "[True, False, True]", "[-1]", "6"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=6),
)
kernel_names = st.sampled_from(["", "Functor<float, 2>", "OpaqueType<2u>", "OpaqueType<" + "9" * 5000 + ">"])


def expect_work_or_nothing(found: Work | None) -> None:
    if found is not None:
        assert type(found.flops) is int
        assert type(found.bytes) is int
        assert found.flops >= 0
        assert found.bytes >= 0
        assert found.family


@given(st.sampled_from(NAMES), *[st.text(max_size=40)] * 5)
def test_any_text(name: str, dims: str, dtypes: str, strides: str, concrete: str, kernel: str) -> None:
    expect_work_or_nothing(work_of(name, dims, dtypes, strides, concrete, kernel_name=kernel))


@given(st.data(), st.sampled_from(NAMES), st.integers(0, 18))
def test_any_lists(data: st.DataObject, name: str, count: int) -> None:
    def listed(items: st.SearchStrategy[Any]) -> str:
        return json.dumps(data.draw(st.lists(items, min_size=count, max_size=count)))

    texts = [listed(shapes), listed(types), data.draw(st.just("")) or listed(shapes), listed(values)]
    expect_work_or_nothing(work_of(name, *texts, kernel_name=data.draw(kernel_names)))


@given(st.data(), st.sampled_from(NAMES))
def test_plausible_lists(data: st.DataObject, name: str) -> None:
    """Well-formed calls, so that rules are reached rather than the decoder's refusal."""
    count = data.draw(st.integers(1, 16))
    dimensions = data.draw(st.integers(0, 5))
    shape = st.lists(st.integers(0, 4), min_size=dimensions, max_size=dimensions)
    dims = data.draw(st.lists(st.one_of(shape, st.lists(shape, max_size=3)), min_size=count, max_size=count))
    dtypes = data.draw(
        st.lists(st.sampled_from(["float", "c10::Half", "bool", "TensorList"]), min_size=count, max_size=count)
    )
    concrete = data.draw(st.lists(values, min_size=count, max_size=count))
    strides = data.draw(st.sampled_from([[], dims]))
    texts = [json.dumps(text) for text in (dims, dtypes, strides, concrete)]
    expect_work_or_nothing(work_of(name, *texts, kernel_name=data.draw(kernel_names)))


@pytest.mark.parametrize(
    ("dims", "dtypes"),
    [
        ("", ""),
        ("null", "null"),
        ("[[2, 3], [3, 4]]", '["float"]'),
        ("[[2, 3]]", '["float"]'),
        ("[[2, -3], [-3, 4]]", '["float", "float"]'),
        ("[[2, 3], [5, 4]]", '["float", "float"]'),
        ("[[2, 3], [3, 4]]", '["float", "made up"]'),
        ("[[2, 3], [3, 4]]", '["float", null]'),
        ("[[2, 3.5], [3.5, 4]]", '["float", "float"]'),
        ("[[2, 3], [3, 4]", '["float", "float"]'),
        ("[[2, [3]], [3, 4]]", '["float", "float"]'),
        ("[" * 5000, "[" * 5000),
        ("[[2, " + "9" * 5000 + "], [3, 4]]", '["float", "float"]'),
        ("[[2, 3], [3, 4]]\ud800", '["float", "float"]'),
    ],
)
def test_rubbish_is_declined(dims: str, dtypes: str) -> None:
    assert work_of("aten::mm", dims, dtypes) is None


def test_indented_text_reads_like_any_other() -> None:
    plain, indented = "[[2, 3], [3, 4]]", "[\n  [\n    2,\n    3\n  ],\n  [\n    3,\n    4\n  ]\n]"
    dtypes = '["float", "float"]'
    assert work_of("aten::mm", plain, dtypes) == work_of("aten::mm", indented, dtypes) is not None


def test_sizes_beyond_64_bits_multiply_exactly() -> None:
    size = 2**40 + 1
    work = work_of("aten::mm", json.dumps([[size, size], [size, size]]), '["float", "float"]')
    assert work is not None
    assert (work.flops, work.bytes) == (2 * size**3, 3 * 4 * size**2)


def test_rated_operators_exist() -> None:
    """A misspelt name would rate nothing and nobody would notice."""
    known = {schema.name for schema in torch._C._jit_get_all_schemas()}
    rated = {name for name in RULES if name.startswith(("aten::", "inductor::"))}
    assert {name for name in rated - GONE if name not in known} == set()
    assert GONE & known == set()


def test_rating_is_quick() -> None:
    texts = (
        "[[128, 512, 1, 1], [512, 512, 3, 3], [], [], [], [], [], [], []]",
        '["float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar", "Scalar", "Scalar", "Scalar"]',
        "[[512, 1, 1, 1], [4608, 9, 3, 1], [], [], [], [], [], [], []]",
        '["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "True", "False", "True"]',
    )
    rounds = 500
    start = time.perf_counter()
    for _ in range(rounds):
        assert work_of("aten::cudnn_convolution", *texts) is not None
    assert time.perf_counter() - start < rounds * 0.001  # some 30 us each on an idle machine
