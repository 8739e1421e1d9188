"""Everything about a machine, a number format and a software stack that the cost of a step depends on."""

from dataclasses import dataclass

from redline.model.model import Number


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Numbers, or columns of numbers: one row per layout."""

    # Kernels: max(flops / compute, bytes / memory) + fixed.
    compute_flops_per_s: Number
    """What matmuls sustain: peak, times their efficiency, times what clocks sustain."""
    memory_bytes_per_s: Number
    fixed_s: Number
    attention_flops_per_s: Number
    """What fused attention sustains on long sequences."""
    attention_half: Number
    """Sequence length at which fused attention reaches half of that."""
    peak_flops_per_s: Number
    """Of the matmul's number format: what MFU refers to."""
    matmul_bytes: Number
    """Per number that matmuls read: 2, or 1 for fp8, 0.5 for fp4."""

    # Links.
    devices_per_node: Number
    node_bytes_per_s: Number
    """Bus bandwidth of collectives inside the node (scale-up domain)."""
    node_latency_s: Number
    nic_bytes_per_s: Number
    """Per device, in one direction."""
    across_latency_s: Number
    host_link_bytes_per_s: Number = 25e9

    # Memory.
    device_bytes: Number

    # The software stack.
    host_layer_s: Number = 0.0
    """What the host needs to launch the forward pass of one layer; a layer never takes less."""
    overlap: Number = 1.0
    """Share of data-parallel traffic that may hide behind compute."""
