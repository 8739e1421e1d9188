"""Everything about a machine, a number format and a software stack that the cost of a step depends on."""

from dataclasses import dataclass

import numpy as np

from redline.model.model import Number


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Numbers, or columns of numbers: one row per layout."""

    # Kernels: max(flops / compute, bytes / memory) + fixed.
    compute_flops_per_s: Number
    """What matmuls sustain: peak, times their efficiency, times what clocks sustain."""
    head_flops_per_s: Number
    """The same for the logits, which stay in 16 bits when layers compute in 8 or 4."""
    memory_bytes_per_s: Number
    fixed_s: Number
    attention_flops_per_s: Number
    """What fused attention sustains on long sequences."""
    attention_half: Number
    """Sequence length at which fused attention reaches half of that."""
    peak_flops_per_s: Number
    """Of the matmul's number format: what MFU refers to, and what nothing may exceed."""
    half_peak_flops_per_s: Number
    """Of 16 bits, in which logits and attention stay."""
    matmul_bytes: Number
    """Per number that matmuls read: 4 for fp32 and tf32, 2, or 1 for fp8, 0.5 for fp4."""

    # Links.
    devices_per_node: Number
    node_bytes_per_s: Number
    """Bus bandwidth of collectives among all devices of the node (scale-up domain)."""
    pair_bytes_per_s: Number
    """Between two devices of a node. Less than `node_bytes_per_s` where there is no switch."""
    linked_devices: Number = np.inf
    """Of a node, how many have such links to each other. Groups of more go through the host's PCIe."""
    server_bytes_per_s: Number = np.inf
    """Bus bandwidth of collectives through that."""
    node_latency_s: Number
    """Of one collective inside the node."""
    nic_bytes_per_s: Number
    """Per device, in one direction."""
    expert_dispatch: Number = 0.0
    """1: a token crosses the network once for each node that it is sent to, and is passed on inside (as DeepEP does);
    0: once for each expert."""
    nic_sharing: Number = 1.0
    """How the members of a group in one node add up: members ** sharing network cards."""
    across_latency_s: Number
    """Of each node that a ring passes, or of each level of a tree."""
    across_decay: Number = 0.0
    """How bandwidth falls with the number of nodes: nodes ** -decay."""
    gather_share: Number = 1.0
    """Of the bandwidth of all-reduces across nodes, what gathering and scattering reach: they have no tree."""
    host_link_bytes_per_s: Number = 25e9
    host_memory_bytes_per_s: Number = 200e9
    """Of one host, for all its devices. A usual server of two sockets sustains about this."""

    # Memory.
    device_bytes: Number

    # The software stack: what its kernels move besides matmuls and fused attention.
    hidden_passes: Number = 16.0
    """How often the forward pass of a layer reads or writes the residual stream: norms, sums, rotation, casts."""
    ffn_passes: Number = 3.0
    """The same for the width of the feed-forward part: its activation."""
    score_passes: Number = 6.0
    """The same for the scores of attention that is not fused: scaling, mask, softmax, dropout."""
    logit_passes: Number = 12.0
    """How often 2 bytes per logit are moved in the loss and its gradient."""
    accumulate_bytes: Number = 8.0
    """Per parameter and micro-batch: adding gradients up."""
    gradient_bytes: Number = 2.0
    """Per parameter, in the reduction over copies."""
    optimizer_bytes: Number = 30.0
    """Per parameter, moved by the optimizer."""
    selective_share: Number = 0.0
    """Of a layer's matmuls and passes, what selective recomputation repeats besides attention."""
    expert_efficiency: Number = 1.0
    """Of grouped matmuls against plain ones of the same size."""
    expert_passes: Number = 4.0
    """How often a row that goes to an expert is read or written besides: sorting, casting, adding up."""

    # What the host needs. A layer never takes less than its launches.
    host_layer_s: Number = 0.0
    """For the forward pass of one layer."""
    host_backward: Number = 1.0
    """For its backward pass, as a multiple."""
    host_collective_s: Number = 0.0
    """For each collective inside a layer, beyond the kernels."""
    host_across_s: Number = 0.0
    """More for each of them, for each doubling of the nodes that it spans."""
    host_expert_s: Number = 0.0
    """For the forward pass of the routing of one layer, beyond its kernels."""
    host_busy_s: Number = 0.0
    """More for each of them, and for each member of its group, while stages in other nodes exchange activations."""
    host_micro_batch_s: Number = 0.0
    """For each micro-batch, whatever its layers: nothing hides it."""
    host_send_s: Number = 0.0
    """For each send between stages: nothing hides it."""
    host_step_s: Number = 0.0
    """Once per step: data, logging, gradient norm."""
    host_optimizer_s: Number = 0.0
    """Of the optimizer, per layer."""

    # What a cluster loses once a job is large. Nothing by default: these are faults of one cluster.
    stall_nodes: Number = 64.0
    """From this many nodes on."""
    stall_send_s: Number = 0.0
    """Of each send between stages."""
    stall_micro_batch_s: Number = 0.0
    """Of each micro-batch where there is but one stage: nothing hides it."""
    stall_reduce: Number = 1.0
    """How many times as long all-reducing the gradients takes."""

    # What hides behind compute.
    overlap: Number = 1.0
    """Share of data-parallel traffic that may hide behind compute."""
    update_overlap: Number = 0.0
    """Share of gathering updated weights that hides behind the next forward pass."""
    tensor_overlap: Number = 0.0
    """Share of tensor-parallel traffic that hides behind matmuls."""
    expert_overlap: Number = 0.0
    """Share of the traffic of expert parallelism that hides behind compute."""
    balanced_head: Number = 0.0
    """1 where layers are dealt to stages by cost, with the head as several of them; 0: the same number to each."""

    @property
    def number_bytes(self) -> Number:
        """Per activation, and per weight that is sent: no less than 16 bits, whatever matmuls read."""
        return np.maximum(2.0, self.matmul_bytes)
