"""The operators of a synthetic transformer: names, kernels, shapes and lengths, sound or with planted causes.

Shapes are chosen so that matrix products run at about half of an H100's bf16 peak and elementwise kernels at 70 % of
its memory bandwidth: the trace's shapes and durations agree.
"""

from dataclasses import dataclass, replace

from tests.support.traces.faults import Faults, Precision
from tests.support.traces.jobspec import JobSpec

HIDDEN = 2048
HEAD_DIM = 128
SEQUENCE = 1024
IMAGE = 32  # height and width of what convolutions work on
PEAK_FLOP_PER_S = 989e12  # H100 SXM, bf16 dense, https://www.nvidia.com/en-us/data-center/h100/
MATMUL_EFFICIENCY = 0.5

# Peaks of the same data sheet: 67 TFLOP/s for fp32 without tensor cores and for fp64 with them.
_PRODUCT_SLOWDOWN: dict[Precision, float] = {"bf16": 1.0, "fp32": 989 / 67, "fp64": 989 / 67}
_BYTES: dict[Precision, int] = {"bf16": 2, "fp32": 4, "fp64": 8}
_PRODUCT_KERNEL: dict[Precision, str] = {
    "bf16": "",
    "fp32": "ampere_sgemm_128x128_tn",
    "fp64": "cutlass_80_tensorop_d884gemm_128x64_16x3_nt_align1",
}
TYPE_NAME: dict[Precision, str] = {"bf16": "c10::BFloat16", "fp32": "float", "fp64": "double"}

_TRANSPOSE_EFFICIENCY = 0.5  # of an elementwise kernel: one of its sides is not contiguous
_PASS = 0.103  # units of reading or writing one [rows, h] tensor in bf16


@dataclass(frozen=True, kw_only=True)
class Op:
    """A forward operator: its names, its share of the step, its shapes, and what its backward launches.

    `units` is the duration in units of a [rows, h] x [h, h] product; an elementwise pass over n tensors of [rows, h]
    takes 0.103 n units (bytes over 70 % of 3.35 TB/s against FLOPs over half the peak, with h = 2048).
    """

    name: str
    inner: str
    kernel: str
    units: float
    weight_shape: tuple[int, int] | None = None  # (in, out) of a matrix product
    width: int = HIDDEN  # of what an elementwise operator reads
    precision: Precision = "bf16"
    module: str = ""
    frame: str = ""
    backward: str = ""
    backward_inner: str = ""
    backward_kernel: str = ""
    backward_parts: int = 1
    reads_scores: bool = False  # of attention by hand: the product with the values
    converts: bool = False  # a kernel before it and one after it change the memory layout


def _linear(inputs: int, outputs: int) -> Op:
    return Op(
        name="aten::linear",
        inner="aten::addmm",
        kernel="nvjet_tst_128x256_64x4_1x2_h_bz_coopA_bias_TNN",
        units=inputs * outputs / HIDDEN**2,
        weight_shape=(inputs, outputs),
        module="Linear",
        frame="torch/nn/modules/linear.py(134): forward",
        backward="AddmmBackward0",
        backward_inner="aten::mm",
        backward_kernel="nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NTN",
        backward_parts=2,
    )


def _elementwise_kernel(functor: str) -> str:
    return (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul> >"
        f"(int, {functor}, std::array<char*, 3ul>)"
    )


def _elementwise(name: str, functor: str, units: float, backward: str, module: str = "", frame: str = "") -> Op:
    kernel = _elementwise_kernel(functor)
    inner = {"aten::layer_norm": "aten::native_layer_norm"}.get(name, "")
    return Op(
        name=name,
        inner=inner,
        kernel=kernel,
        units=units,
        module=module,
        frame=frame,
        backward=backward,
        backward_inner=f"{inner or name}_backward",
        backward_kernel=kernel,
    )


_NORM = _elementwise(
    "aten::layer_norm",
    "at::native::LayerNormFunctor<c10::BFloat16>",
    0.21,
    "NativeLayerNormBackward0",
    "LayerNorm",
    "torch/nn/modules/normalization.py(229): forward",
)
_ADD = _elementwise("aten::add", "at::native::CUDAFunctor_add<c10::BFloat16>", 0.31, "AddBackward0")
_GELU = replace(
    _elementwise(
        "aten::gelu",
        "at::native::GeluCUDAKernelImpl<c10::BFloat16>",
        0.82,
        "GeluBackward0",
        "GELU",
        "torch/nn/modules/activation.py(816): forward",
    ),
    width=4 * HIDDEN,
)
_ATTENTION = Op(
    name="aten::scaled_dot_product_attention",
    inner="aten::_scaled_dot_product_flash_attention",
    kernel="void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>, false, true, false, false, true>(pytorch_flash::Flash_fwd_params)",
    units=1.0,
    backward="ScaledDotProductFlashAttentionBackward0",
    backward_inner="aten::_scaled_dot_product_flash_attention_backward",
    backward_kernel="void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, "
    "128, 8, 2, 4, 2, false, false, cutlass::bfloat16_t>, false, true>(pytorch_flash::Flash_bwd_params)",
)
ADAM = Op(
    name="aten::_fused_adamw_",
    inner="",
    kernel="void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4> >",
    units=0.5,
)
PARAMETERS = 12  # of a layer: weight and bias of four products and two norms
_ADAM_LOOP = ("mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div", "add_", "addcdiv_")

_SCORES = 2 * SEQUENCE // HEAD_DIM * _PASS  # reading and writing the scores of all heads: [rows, heads, sequence]
_SCORE_PRODUCT = Op(
    name="aten::matmul",
    inner="aten::bmm",
    kernel="nvjet_tst_128x128_64x6_2x1_v_bz_TNN",
    units=0.5 + _SCORES / 2,
    backward="BmmBackward0",
    backward_inner="aten::bmm",
    backward_kernel="nvjet_tst_128x128_64x6_2x1_v_bz_NTN",
    backward_parts=2,
)
_MASK = _elementwise(
    "aten::masked_fill", "at::native::MaskedFillFunctor<c10::BFloat16>", _SCORES, "MaskedFillBackward0"
)
_SOFTMAX = Op(
    name="aten::softmax",
    inner="aten::_softmax",
    kernel="void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>",
    units=_SCORES,
    backward="SoftmaxBackward0",
    backward_inner="aten::_softmax_backward_data",
    backward_kernel="void (anonymous namespace)::softmax_warp_backward<float, c10::BFloat16, float, 10, false, false>",
)
_MANUAL_ATTENTION = (_SCORE_PRODUCT, _MASK, _SOFTMAX, replace(_SCORE_PRODUCT, reads_scores=True))
_MANUAL_GELU = tuple(
    replace(
        _elementwise(f"aten::{name}", f"at::native::{functor}<c10::BFloat16>", 0.82, f"{node}Backward0"),
        width=4 * HIDDEN,
    )
    for name, functor, node in (
        ("pow", "PowFunctor", "Pow"),
        ("mul", "MulFunctor", "Mul"),
        ("add", "CUDAFunctor_add", "Add"),
        ("tanh", "TanhFunctor", "Tanh"),
        ("add", "CUDAFunctorOnSelf_add", "Add"),
        ("mul", "MulFunctor", "Mul"),
    )
)
_CLONE = Op(
    name="aten::clone",
    inner="aten::copy_",
    kernel=_elementwise_kernel("at::native::direct_copy_kernel_cuda<c10::BFloat16>"),
    units=0.82,
    width=4 * HIDDEN,
    backward_parts=0,
)
LAYOUT_KERNELS = (
    "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true, (int)0>",
    "void cudnn::engines_precompiled::nhwcToNchwKernel<__nv_bfloat16, __nv_bfloat16, float, true, false, (int)0>",
)


def layer_halves(spec: JobSpec) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """The operators of a layer up to its attention's sum, and those of its MLP."""
    faults = spec.faults
    attention = _MANUAL_ATTENTION if faults.unfused_attention else (_ATTENTION,)
    gelu = _MANUAL_GELU if faults.unfused_gelu else (_GELU,)
    first = (_NORM, _linear(HIDDEN, 3 * HIDDEN), *attention, _linear(HIDDEN, HIDDEN), _ADD)
    clones = (_CLONE,) * faults.clones
    last = (_NORM, _linear(HIDDEN, 4 * HIDDEN), *gelu, *clones, _linear(4 * HIDDEN, HIDDEN), _ADD)
    return _changed(first, spec), _changed(last, spec)


def optimizer_ops(spec: JobSpec) -> tuple[Op, ...]:
    """What the optimizer of a stage launches: a few kernels for all parameters, or eight for each."""
    fused = max(1, spec.layers_per_stage // 8)
    if not spec.faults.loop_optimizer:
        return (ADAM,) * fused
    count = spec.layers_per_stage * PARAMETERS
    loop = tuple(
        Op(name=f"aten::{name}", inner="", kernel=_elementwise_kernel(f"at::native::{name}Functor<float>"), units=_PASS)
        for name in _ADAM_LOOP
    )
    return loop * count


def layout_op(op: Op, place: int) -> Op:
    """The kernel that converts the layout before (0) or after (1) a convolution."""
    passes = 2 * max(op.weight_shape or (HIDDEN,)) / HIDDEN
    return replace(op, kernel=LAYOUT_KERNELS[place], units=passes * _PASS / _TRANSPOSE_EFFICIENCY)


def _changed(ops: tuple[Op, ...], spec: JobSpec) -> tuple[Op, ...]:
    if spec.convolutions:
        ops = tuple(_convolution(op, spec.faults) if op.module == "Linear" else op for op in ops)
    if spec.faults.fp64_elementwise:
        ops = tuple(op if _is_product(op) else _in_precision(op, "fp64") for op in ops)
    if spec.faults.precision != "bf16":
        ops = tuple(_in_precision(op, spec.faults.precision) for op in ops)
    return ops


def _convolution(op: Op, faults: Faults) -> Op:
    """A product as a convolution of one by one pixels."""
    return replace(
        op,
        name="aten::conv2d",
        inner="aten::cudnn_convolution",
        kernel="sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1",
        module="Conv2d",
        frame="torch/nn/modules/conv.py(548): forward",
        backward="ConvolutionBackward0",
        backward_inner="aten::cudnn_convolution",
        backward_kernel="sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64",
        converts=faults.layout_conversions,
    )


def _is_product(op: Op) -> bool:
    return op.weight_shape is not None or op.inner == "aten::bmm" or "attention" in op.name


def _in_precision(op: Op, precision: Precision) -> Op:
    """The same operator on wider numbers: products by their peak, everything else by its bytes."""
    factor = _PRODUCT_SLOWDOWN[precision] if _is_product(op) else _BYTES[precision] / _BYTES["bf16"]
    kernel = _PRODUCT_KERNEL[precision] if op.weight_shape is not None else ""
    wide = TYPE_NAME[precision]
    return replace(
        op,
        precision=precision,
        units=op.units * factor,
        kernel=kernel or op.kernel.replace("c10::BFloat16", wide).replace("cutlass::bfloat16_t", wide),
        backward_kernel=kernel or op.backward_kernel.replace("c10::BFloat16", wide),
    )
