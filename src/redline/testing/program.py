"""What the host of one pipeline stage does in a step: an ordered list of items, each at most one device operation.

The model is a transformer of `layers` blocks. Shapes are chosen so that matrix products run at about half of an
H100's bf16 peak and elementwise kernels at 70 % of its memory bandwidth: the trace's shapes and durations agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from redline.testing.jobspec import Axis, JobSpec

Kind = Literal["input", "pause", "copy_in", "compute", "collective", "send", "receive", "copy_out", "sync", "resume"]
Phase = Literal["input", "forward", "backward", "optimizer", "end"]
Direction = Literal["activation", "gradient"]

HIDDEN = 2048
HEAD_DIM = 128
SEQUENCE = 1024
PEAK_FLOP_PER_S = 989e12  # H100 SXM, bf16 dense, https://www.nvidia.com/en-us/data-center/h100/
MATMUL_EFFICIENCY = 0.5

COMPUTE_STREAM = 7
AXIS_STREAM: dict[Axis, int] = {"dp": 20, "tp": 24, "pp": 28}
RECEIVE_STREAM: dict[Direction, int] = {"activation": 28, "gradient": 36}
SEND_STREAM: dict[Direction, int] = {"activation": 32, "gradient": 40}


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
    module: str = ""
    frame: str = ""
    backward: str = ""
    backward_inner: str = ""
    backward_kernel: str = ""
    backward_parts: int = 1


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


def _elementwise(name: str, functor: str, units: float, backward: str, module: str = "", frame: str = "") -> Op:
    kernel = (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul> >"
        f"(int, {functor}, std::array<char*, 3ul>)"
    )
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
_GELU = _elementwise(
    "aten::gelu",
    "at::native::GeluCUDAKernelImpl<c10::BFloat16>",
    0.82,
    "GeluBackward0",
    "GELU",
    "torch/nn/modules/activation.py(816): forward",
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
ATTENTION_OPS = (_NORM, _linear(HIDDEN, 3 * HIDDEN), _ATTENTION, _linear(HIDDEN, HIDDEN), _ADD)
MLP_OPS = (_NORM, _linear(HIDDEN, 4 * HIDDEN), _GELU, _linear(4 * HIDDEN, HIDDEN), _ADD)
LAYER_OPS = ATTENTION_OPS + MLP_OPS
ADAM = Op(
    name="aten::_fused_adamw_",
    inner="",
    kernel="void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4> >",
    units=0.5,
)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One collective or point-to-point call in torch's words."""

    axis: Axis
    name: str  # as in "Collective name"
    call: str  # the c10d operator
    annotation: str
    kernel: str
    bytes_in: int
    bytes_out: int
    wire_bytes: float  # what each rank moves over the link
    direction: Direction | None = None  # of a point-to-point message


@dataclass(frozen=True, kw_only=True)
class Item:
    """One action of the host; `waits` are earlier items of the step whose device work must end first."""

    kind: Kind
    phase: Phase
    stream: int | None = None
    op: Op | None = None
    part: int = 0  # which kernel of a backward node this is
    layer: int = -1
    microbatch: int = 0
    message: Message | None = None
    waits: tuple[int, ...] = ()

    @property
    def units(self) -> float:
        """Device time in units of the program; only compute items have any."""
        return self.op.units if self.kind == "compute" and self.op is not None else 0.0


Program = tuple[Item, ...]


@lru_cache(maxsize=64)
def stage_program(spec: JobSpec, stage: int) -> Program:
    """The items one step of a pipeline stage consists of; every rank of the stage runs the same ones."""
    return _Writer(spec, stage).write()


def rows_per_microbatch(spec: JobSpec, program: Program) -> int:
    """Tokens per microbatch for which the products' FLOPs fit their durations; whole sequences when there is room."""
    total_units = sum(item.units for item in program)
    unit_s = spec.step_compute_us * 1e-6 / total_units
    rows = int(unit_s * MATMUL_EFFICIENCY * PEAK_FLOP_PER_S / (2 * HIDDEN**2))
    return rows // SEQUENCE * SEQUENCE if rows >= SEQUENCE else max(8, rows // 8 * 8)


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> Iterator[tuple[Phase, int]]:
    """The 1F1B order of a stage: fill the pipeline, alternate, drain."""
    warmup = min(stages - stage - 1, microbatches)
    for index in range(warmup):
        yield "forward", index
    for index in range(microbatches - warmup):
        yield "forward", warmup + index
        yield "backward", index
    for index in range(microbatches - warmup, microbatches):
        yield "backward", index


class _Writer:
    """Writes a stage's program item by item, remembering what later items must wait for."""

    def __init__(self, spec: JobSpec, stage: int) -> None:
        self.spec = spec
        self.first_stage = stage == 0
        self.last_stage = stage == spec.shape.pp - 1
        self.stage = stage
        self.items: list[Item] = []
        self.last_compute: int | None = None
        self.pending: list[int] = []  # what the next compute item has to wait for
        self.gradient_syncs: list[int] = []

    def write(self) -> Program:
        self._add(Item(kind="input", phase="input"))
        self._add(Item(kind="pause", phase="input"))
        self._add(Item(kind="copy_in", phase="input", stream=COMPUTE_STREAM))
        for phase, microbatch in one_forward_one_backward(self.stage, self.spec.shape.pp, self.spec.microbatches):
            if phase == "forward":
                self._forward(microbatch)
            else:
                self._backward(microbatch)
        self.pending += self.gradient_syncs
        for _ in range(max(1, self.spec.layers_per_stage // 8)):
            self._compute(Item(kind="compute", phase="optimizer", op=ADAM))
        if self.spec.sync_each_step:
            self._add(Item(kind="copy_out", phase="end", stream=COMPUTE_STREAM))
            self._add(Item(kind="sync", phase="end"))
            self._add(Item(kind="resume", phase="end"))
        return tuple(self.items)

    def _forward(self, microbatch: int) -> None:
        if not self.first_stage:
            self.pending.append(self._message("forward", _point_to_point(self.spec, "recv", "activation"), microbatch))
        gathered = self._gather("forward", 0, microbatch)
        for layer in range(self.spec.layers_per_stage):
            self.pending += gathered
            # The next layer's parameters are gathered while this layer computes.
            gathered = self._gather("forward", layer + 1, microbatch)
            for half in (ATTENTION_OPS, MLP_OPS):
                for op in half:
                    self._compute(Item(kind="compute", phase="forward", op=op, layer=layer, microbatch=microbatch))
                self._tensor_parallel("forward", microbatch)
        if not self.last_stage:
            self._message("forward", _point_to_point(self.spec, "send", "activation"), microbatch)

    def _backward(self, microbatch: int) -> None:
        if not self.last_stage:
            self.pending.append(self._message("backward", _point_to_point(self.spec, "recv", "gradient"), microbatch))
        layers = self.spec.layers_per_stage
        gathered = self._gather("backward", layers - 1, microbatch)
        for layer in reversed(range(layers)):
            self.pending += gathered
            gathered = self._gather("backward", layer - 1, microbatch)
            for half in (MLP_OPS, ATTENTION_OPS):
                for op in reversed(half):
                    for part in range(op.backward_parts):
                        self._compute(
                            Item(kind="compute", phase="backward", op=op, part=part, layer=layer, microbatch=microbatch)
                        )
                self._tensor_parallel("backward", microbatch)
            self._sync_gradients(layer, microbatch)
        if not self.first_stage:
            self._message("backward", _point_to_point(self.spec, "send", "gradient"), microbatch)

    def _gather(self, phase: Phase, layer: int, microbatch: int) -> list[int]:
        wanted = self.spec.collectives == "all_gather_reduce_scatter" and self.spec.shape.dp > 1
        if not wanted or not 0 <= layer < self.spec.layers_per_stage:
            return []
        return [self._message(phase, _all_gather(self.spec), microbatch, after_compute=False)]

    def _sync_gradients(self, layer: int, microbatch: int) -> None:
        spec = self.spec
        if spec.shape.dp == 1 or spec.collectives == "none":
            return
        if spec.collectives == "all_gather_reduce_scatter":
            self.gradient_syncs.append(self._message("backward", _reduce_scatter(spec), microbatch))
        elif microbatch == spec.microbatches - 1 and self._closes_bucket(layer):
            self.gradient_syncs.append(
                self._message("backward", _all_reduce(spec, "dp", spec.collective_bytes), microbatch)
            )

    def _closes_bucket(self, layer: int) -> bool:
        """Whether the layer, counted from the last, is the final one of a gradient bucket."""
        layers, buckets = self.spec.layers_per_stage, min(self.spec.buckets, self.spec.layers_per_stage)
        done = layers - layer
        return done * buckets // layers > (done - 1) * buckets // layers

    def _tensor_parallel(self, phase: Phase, microbatch: int) -> None:
        if self.spec.shape.tp > 1:
            message = _all_reduce(self.spec, "tp", self.spec.activation_bytes)
            self.pending.append(self._message(phase, message, microbatch))

    def _compute(self, item: Item) -> None:
        waits, self.pending = tuple(self.pending), []
        self.last_compute = self._add(
            Item(
                kind="compute",
                phase=item.phase,
                stream=COMPUTE_STREAM,
                op=item.op,
                part=item.part,
                layer=item.layer,
                microbatch=item.microbatch,
                waits=waits,
            )
        )

    def _message(self, phase: Phase, message: Message, microbatch: int, *, after_compute: bool = True) -> int:
        kind: Kind = "collective"
        stream = AXIS_STREAM[message.axis]
        if message.direction is not None:
            kind = "send" if message.name == "send" else "receive"
            stream = (SEND_STREAM if kind == "send" else RECEIVE_STREAM)[message.direction]
        waits = (self.last_compute,) if after_compute and kind != "receive" and self.last_compute is not None else ()
        return self._add(
            Item(kind=kind, phase=phase, stream=stream, message=message, microbatch=microbatch, waits=waits)
        )

    def _add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1


def _all_reduce(spec: JobSpec, axis: Axis, size_bytes: int) -> Message:
    size = spec.axis_size(axis)
    return Message(
        axis=axis,
        name="allreduce",
        call="c10d::allreduce_",
        annotation="nccl:all_reduce",
        kernel="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=size_bytes,
        bytes_out=size_bytes,
        wire_bytes=2 * (size - 1) / size * size_bytes,
    )


def _all_gather(spec: JobSpec) -> Message:
    size = spec.shape.dp
    return Message(
        axis="dp",
        name="_allgather_base",
        call="c10d::_allgather_base_",
        annotation="nccl:_all_gather_base",
        kernel="ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=spec.collective_bytes // size,
        bytes_out=spec.collective_bytes // size * size,
        wire_bytes=(size - 1) / size * spec.collective_bytes,
    )


def _reduce_scatter(spec: JobSpec) -> Message:
    size = spec.shape.dp
    return Message(
        axis="dp",
        name="_reduce_scatter_base",
        call="c10d::_reduce_scatter_base_",
        annotation="nccl:_reduce_scatter_base",
        kernel="ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=spec.collective_bytes // size * size,
        bytes_out=spec.collective_bytes // size,
        wire_bytes=(size - 1) / size * spec.collective_bytes,
    )


def _point_to_point(spec: JobSpec, name: Literal["send", "recv"], direction: Direction) -> Message:
    return Message(
        axis="pp",
        name=name,
        call="c10d::send" if name == "send" else "c10d::recv_",
        annotation=f"nccl:{name}",
        kernel="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=spec.activation_bytes,
        bytes_out=spec.activation_bytes,
        wire_bytes=spec.activation_bytes,
        direction=direction,
    )
