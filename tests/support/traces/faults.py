"""What is wrong with a synthetic job beyond slow ranks: each field plants one cause. Imports nothing of ours."""

from dataclasses import dataclass
from typing import Literal

Precision = Literal["bf16", "fp32", "fp64"]


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Causes of lost time, all absent by default. Numbers are per step and rank unless they say otherwise."""

    # The host waits for the device, spread over the layers of the forward pass.
    item_reads: int = 0  # tensor.item()
    device_syncs: int = 0  # torch.cuda.synchronize()
    small_copies: int = 0  # tensors made on the host, copied from pageable memory
    allocations: int = 0  # cudaFree, which waits for the device, and cudaMalloc
    pageable_batch: bool = False  # the batch is copied from pageable memory
    host_work_us: float = 0.0  # Python between the data loader and the forward pass, on every rank

    # Kernels that take longer than they need to, or are not needed.
    precision: Precision = "bf16"  # of the whole model
    fp64_elementwise: bool = False  # all but the products in fp64 by accident
    unfused_attention: bool = False  # two products and a softmax
    unfused_gelu: bool = False  # six elementwise operators
    clones: int = 0  # copies of the activations in each layer's forward pass
    layout_conversions: bool = False  # NCHW to NHWC and back around each convolution; needs `convolutions`
    recompute: bool = False  # activation checkpointing of every layer
    loop_optimizer: bool = False  # AdamW with foreach=False: eight kernels for each parameter

    # Communication.
    late_all_reduce: bool = False  # gradients are reduced after the backward pass, by hand
    reduce_every_microbatch: bool = False  # gradient accumulation without no_sync
    fp32_gradients: bool = False  # gradient messages are twice as large
    buffers: int = 0  # that DDP broadcasts before each forward pass, and copies back one by one
    small_all_reduces: int = 0  # of metrics, after the backward pass; the host waits for each
    no_prefetch: bool = False  # parameters are gathered when their layer is reached


NO_FAULTS = Faults()
