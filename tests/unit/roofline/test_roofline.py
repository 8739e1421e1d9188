"""Least times from figures of a machine; in which type the hardware computes."""

from math import isnan

import pytest

from redline.hardware.machine import Figure, Machine
from redline.roofline.roofline import arithmetic_dtype, roof_of
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
