"""The collectives and point-to-point messages of a synthetic job, in torch's words."""

from dataclasses import dataclass
from typing import Literal

from tests.support.traces.jobspec import Axis, JobSpec

Direction = Literal["activation", "gradient"]


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
    dtype: str = "BFloat16"
    direction: Direction | None = None  # of a point-to-point message

    @property
    def element_bytes(self) -> int:
        return 4 if self.dtype == "Float" else 2


def gradient_all_reduce(spec: JobSpec) -> Message:
    """Of one bucket; gradients in fp32 are twice as large as in bf16."""
    if spec.faults.fp32_gradients:
        return all_reduce(spec, "dp", 2 * spec.collective_bytes, dtype="Float")
    return all_reduce(spec, "dp", spec.collective_bytes)


def all_reduce(spec: JobSpec, axis: Axis, size_bytes: int, *, dtype: str = "BFloat16") -> Message:
    """A sum over the ranks of an axis."""
    size = spec.axis_size(axis)
    return Message(
        axis=axis,
        name="allreduce",
        call="c10d::allreduce_",
        annotation="nccl:all_reduce",
        kernel=f"ncclDevKernel_AllReduce_Sum_{'f32' if dtype == 'Float' else 'bf16'}_RING_LL"
        "(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=size_bytes,
        bytes_out=size_bytes,
        wire_bytes=2 * (size - 1) / size * size_bytes,
        dtype=dtype,
    )


def broadcast(spec: JobSpec, size_bytes: int) -> Message:
    """What rank 0 of the data-parallel group sends to all others."""
    return Message(
        axis="dp",
        name="broadcast",
        call="c10d::broadcast_",
        annotation="nccl:broadcast",
        kernel="ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=size_bytes,
        bytes_out=size_bytes,
        wire_bytes=size_bytes,
    )


def all_to_all(spec: JobSpec) -> Message:
    """The tokens of a micro-batch on their way to the experts, or back."""
    size = spec.shape.dp
    return Message(
        axis="dp",
        name="all_to_allv",
        call="c10d::alltoall_base_",
        annotation="nccl:all_to_all",
        kernel="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        bytes_in=spec.activation_bytes,
        bytes_out=spec.activation_bytes,
        wire_bytes=(size - 1) / size * spec.activation_bytes,
    )


def all_gather(spec: JobSpec) -> Message:
    """The parameters of a layer, from all ranks that hold a part of them."""
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


def reduce_scatter(spec: JobSpec) -> Message:
    """The gradients of a layer, summed, to the ranks that hold a part of them."""
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


def point_to_point(spec: JobSpec, name: Literal["send", "recv"], direction: Direction) -> Message:
    """A message between neighbouring stages."""
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
