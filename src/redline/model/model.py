"""A model as the numbers that its cost depends on: widths, depths and kinds of layers.

Every field is a number, or a column of numbers: then the description stands for many models at once, one per row, and
all arithmetic on it is vectorised. Integers stay integers, so that parameters are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Calls of one operator with the same shapes, in one direction."""

    name: str  # as in aten: mm, convolution, native_layer_norm
    backward: bool
    shapes: tuple[tuple[int, ...], ...]  # of the tensors that go in
    calls: int
    flops: int  # of all calls together, as the next two
    bytes: int  # read and written, each tensor once per call. Views move nothing.
    parameter_bytes: int = 0
    """The part of them that is parameters, buffers and their gradients: the same whatever the batch."""
    causal: bool = False  # attention in which a token meets only those before it: half of its FLOPs are never done


@dataclass(frozen=True, kw_only=True)
class CountedModule:
    """One forward and one backward pass on the example inputs."""

    name: str
    parameters: int
    trained_parameters: int
    parameter_bytes: int
    forward_flops: int
    backward_flops: int
    kept_bytes: int  # what the forward pass keeps for the backward pass, beside parameters and buffers
    operators: tuple[Operator, ...]  # in the order in which they first ran

    samples: int = 1  # in the example inputs: the first size of the first tensor
    blocks: int = 1
    """Submodules of the kind that repeats and holds the most parameters: what FSDP wraps and recomputation repeats."""
    block_inputs_bytes: int = 0  # what goes into all of them: kept where everything else is computed again
    blocks_kept_bytes: int = 0  # of `kept_bytes`, what all blocks keep together
    largest_block_bytes: int = 0  # what the block keeps that keeps the most

    @property
    def number_bytes(self) -> float:
        """Of a parameter, as the module was built: 4 unless its user says otherwise."""
        return self.parameter_bytes / self.parameters if self.parameters else 4.0


Column = NDArray[np.float64]
Number = float | Column


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder, encoder or diffusion transformer; a stack of layers between an embedding and a head."""

    name: str = ""
    layers: Number
    hidden: Number
    heads: Number
    kv_heads: Number
    head_dim: Number  # of queries and keys, with the rotated part where that is separate
    value_dim: Number  # of values, per head
    ffn: Number  # width of the dense feed-forward part; of a gated one, the width of each half
    gated: Number  # 1 where the feed-forward part has a gate, so three matrices instead of two
    vocab: Number
    tied: Number  # 1 where the head is the embedding, transposed
    causal: Number = 1

    # Which layers are what. All numbers count layers.
    attention_layers: Number
    dense_layers: Number  # with a dense feed-forward part
    moe_layers: Number = 0
    state_layers: Number = 0  # with a state-space mixer (Mamba-2) in the place of attention
    window: Number = 0  # tokens that attention sees in `window_layers`; 0 where there are none
    window_layers: Number = 0

    # Latent attention (MLA): low ranks that queries, and keys with values, pass through. 0 where there is none.
    q_rank: Number = 0
    kv_rank: Number = 0
    rope_dim: Number = 0  # the part of head_dim that is rotated and, with latent attention, shared by all heads

    # Mixture of experts.
    experts: Number = 0
    experts_per_token: Number = 0
    expert_ffn: Number = 0
    shared_ffn: Number = 0  # width of all shared experts together
    shared_gate: Number = 0  # 1 where a gate of one number per token weighs the shared experts
    router_bias: Number = 0  # 1 where the router has a trained bias per expert

    # State-space layers.
    state_inner: Number = 0
    state_size: Number = 0
    state_groups: Number = 0
    state_heads: Number = 0
    state_conv: Number = 0

    # What adds parameters and hardly any time.
    positions: Number = 0  # learned position embeddings
    attention_bias: Number = 0  # numbers of bias per layer, in the projections into and out of attention
    ffn_bias: Number = 0  # 1 where the feed-forward matrices have biases
    norm_weights: Number = 0  # numbers in the norms of all layers and after them, all together
    other_parameters: Number = 0  # outside the layers: patch embeddings, time embeddings, heads of other kinds

    head_dense: Number = 0  # 1 where a square matrix stands before the head (BERT)

    # Diffusion transformers.
    modulation: Number = 0  # numbers that each layer is modulated by, per hidden unit (6 in DiT); 0 where there is none
    cross_tokens: Number = 0  # tokens of the condition that cross-attention reads; 0 where there is none
    joint_layers: Number = 0
    """Layers in which those tokens have matrices of their own and attend together with the others (SD3), in the place
    of cross-attention."""
    patch_in: Number = 0  # numbers of a patch that becomes a token; 0 where tokens are looked up
    patch_out: Number = 0  # numbers that the head makes of a token; 0 where it makes logits
    time_width: Number = 0  # width of the sinusoids that the embedding of time begins with; 0 where there is none
    time_copies: Number = 1  # embeddings of time with weights of their own
