"""What the forward pass keeps for the backward pass, operator by operator, in bytes per token and layer.

The classic case is Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
(arXiv 2205.05198): 16-bit numbers, dropout, attention that writes its scores, a feed-forward part of 4 h. It sums to
34 h + 5 a s per token, of which 10 h are whole on every tensor-parallel device without sequence parallelism.
The same operators give the usual case of today: no dropout, RMSNorm, a gated feed-forward part, fused attention.

A tensor is kept once, by the first operator here that needs it. An operator that is linear keeps its input only; a
product of two results keeps both; a sum keeps nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from redline.model.flops import STATE_CHUNK, present
from redline.model.model import Model, Number

Divided = Literal["tensor", "sequence", "routed", "expert", "none"]
"""By what a tensor is split over devices: tensor parallelism; tensor parallelism if sequence parallel, else nothing;
as tokens are that experts get; as the inside of experts is; nothing."""
Kept = Literal["always", "layer", "core"]
"""always: even with full recomputation. layer: not then. core: the inside of attention, which selective recomputation
makes anew as well."""


@dataclass(frozen=True, kw_only=True)
class Practice:
    """How the software runs a layer. Numbers or columns."""

    number_bytes: Number = 2
    flash: Number = 1  # 1: fused attention, which keeps a number per query and head in the place of scores
    dropout: Number = 0
    mask_bytes: Number = 1  # of a mask of dropout, per number: a byte on GPUs, the format of the number on CPUs
    residual_bytes: Number = 0
    """Per number of the residual stream, which norms keep; 0: `number_bytes`. Autocast adds it up in 32 bits."""
    fused_norm: Number = 1
    """0: RMSNorm written in single operators, which keeps its input in 32 bits and its result before the weight."""
    fused_gate: Number = 0  # 1: activation and product of a gated part in one kernel, which keeps no activated gate
    product_again: Number = 0
    """1: the backward pass makes their product anew from the two halves, as compiled layers do."""
    norm_again: Number = 0  # 1: it makes the results of norms anew from their inputs, as compiled layers do


@dataclass(frozen=True)
class Activation:
    """One kept tensor."""

    operator: str
    bytes_per_token: Number  # in one layer, on one device that has all of it
    layers: Number
    divided: Divided
    kept: Kept = "layer"


def layer_activations(model: Model, sequence: Number, practice: Practice) -> tuple[Activation, ...]:
    """Everything that the layers keep. Tokens of a joint condition are tokens like the others."""
    more = 1 + present(model.joint_layers) * model.cross_tokens / sequence
    activations = (
        *_norms(model, practice),
        *_attention(model, sequence, practice),
        *_latent(model, practice),
        *_cross(model, sequence, practice),
        *_state(model, practice),
        *_dense(model, practice),
        *_experts(model, practice),
        *_modulation(model, practice),
    )
    return tuple(replace(activation, bytes_per_token=activation.bytes_per_token * more) for activation in activations)


def bytes_kept(
    activations: tuple[Activation, ...],
    *,
    tp: Number = 1,
    sequence_parallel: Number = 0,
    expert_tp: Number = 1,
    recompute: Number = 0,
) -> Number:
    """Per token, over all layers, on one device; `recompute`: 0 none, 1 selective, 2 full.

    With sequence parallelism each tensor-parallel device sends its own tokens to experts; devices that share an expert
    gather the tokens of all of them.
    """
    whole = sequence_parallel * tp + (1 - sequence_parallel)
    routed = sequence_parallel * tp / expert_tp + (1 - sequence_parallel)
    divisors: dict[Divided, Number] = {
        "tensor": tp, "sequence": whole, "routed": routed, "expert": routed * expert_tp, "none": 1,
    }  # fmt: skip
    stays: dict[Kept, Number] = {
        "always": 1,
        "layer": 1 - present(recompute - 1),
        "core": 1 - present(recompute),
    }
    total: Number = 0
    for activation in activations:
        total = (
            total
            + activation.bytes_per_token * activation.layers * stays[activation.kept] / divisors[activation.divided]
        )
    return total


def saved_by_operator(model: Model, sequence: Number, practice: Practice) -> tuple[Activation, ...]:
    """What is kept where recomputation goes by operators: the input of a layer, the result of fused attention, and of
    matmuls every second one (torchtitan's default). Of the usual order (queries, keys, values, output, gate, up, down)
    these are queries, values, gate and down; of a plain feed-forward part one of both. Of experts nothing is kept.
    """
    e, layers, dense = practice.number_bytes, model.attention_layers, model.dense_layers
    inside = layer_activations(replace(model, moe_layers=0), sequence, practice)
    always = [one for one in inside if one.kept == "always" or one.operator in {"attention_output", "logarithms"}]
    made = model.heads * model.head_dim + model.kv_heads * model.value_dim
    return (
        *always,
        Activation("every_second_attention_matmul", e * made, layers, "tensor"),
        Activation("every_second_ffn_matmul", e * model.ffn, dense, "tensor"),
        Activation("ffn_output", e * model.hidden * model.gated, dense, "sequence"),
    )


def _norms(model: Model, practice: Practice) -> Iterator[Activation]:
    """One norm before each mixer and each feed-forward part; the first reads the input of the layer."""
    e, h, fused = practice.number_bytes, model.hidden, practice.fused_norm
    norms = model.attention_layers + model.state_layers + model.dense_layers + model.moe_layers
    residual = practice.residual_bytes + (1 - present(practice.residual_bytes)) * e
    yield Activation("layer_input", residual * h, model.layers, "sequence", "always")
    yield Activation("norm_input", residual * h, norms - model.layers, "sequence")
    yield Activation("norm_input_32", (1 - fused) * (4 - residual) * h, norms, "sequence")
    yield Activation("norm_result", (1 - fused) * e * h, norms, "sequence")


def _attention(model: Model, sequence: Number, practice: Practice) -> Iterator[Activation]:
    """Input of the projection; queries, keys and values; scores or, fused, one logarithm of 32 bits per query and head;
    the result, which the output projection reads; the mask of its dropout.

    Unfused: the softmax, the mask of its dropout in one byte, and the dropped softmax: (2 + 1 + 2) a s in 16 bits.
    """
    e, layers, plain = practice.number_bytes, model.attention_layers, 1 - present(model.kv_rank)
    unfused, dropout, mask = 1 - practice.flash, practice.dropout, practice.dropout * practice.mask_bytes
    seen = sequence + present(model.joint_layers) * model.cross_tokens
    scores = unfused * model.heads * seen
    made = model.heads * model.head_dim + model.kv_heads * (model.head_dim + model.value_dim)
    yield Activation("attention_input", e * model.hidden * (1 - practice.norm_again), layers, "sequence")
    yield Activation("queries_keys_values", plain * e * made, layers, "tensor")
    yield Activation("softmax", e * scores, layers, "tensor", "core")
    yield Activation("softmax_mask", mask * scores, layers, "tensor", "core")
    yield Activation("softmax_dropped", dropout * e * scores, layers, "tensor", "core")
    yield Activation("logarithms", practice.flash * 4 * model.heads, layers, "tensor")
    yield Activation("attention_output", e * model.heads * model.value_dim, layers, "tensor")
    yield Activation("attention_mask", mask * model.hidden, layers, "sequence")


def _latent(model: Model, practice: Practice) -> Iterator[Activation]:
    """MLA: each low-rank result is kept twice, before its norm and after; keys are put together from two parts, so they
    are kept beside the result of the matrix up, which holds values too.
    """
    e, layers, latent = practice.number_bytes, model.attention_layers, present(model.kv_rank)
    low = 2 * model.q_rank + 2 * model.kv_rank + model.rope_dim
    up = model.head_dim - model.rope_dim + model.value_dim
    yield Activation("latents", latent * e * low, layers, "none")
    yield Activation("latent_queries", latent * e * model.heads * model.head_dim, layers, "tensor")
    yield Activation("latent_keys_values", latent * e * model.heads * up, layers, "tensor")
    yield Activation("latent_keys", latent * e * model.heads * model.head_dim, layers, "tensor")


def _cross(model: Model, sequence: Number, practice: Practice) -> Iterator[Activation]:
    """Input, queries and result per token; keys and values per token of the condition."""
    crossed = present(model.cross_tokens) * (1 - present(model.joint_layers))
    e, layers, inner = practice.number_bytes * crossed, model.attention_layers, model.heads * model.head_dim
    yield Activation("cross_input", 2 * e * model.hidden, layers, "sequence")
    yield Activation("cross_queries_output", 2 * e * inner, layers, "tensor")
    yield Activation("cross_keys_values", 2 * e * inner * model.cross_tokens / sequence, layers, "tensor")
    scores = (1 - practice.flash) * e * model.heads * model.cross_tokens
    yield Activation("cross_softmax", scores, layers, "tensor", "core")


def _state(model: Model, practice: Practice) -> Iterator[Activation]:
    """Mamba-2: what the matrix in makes, what the convolution makes of it, a state per chunk in 32 bits, the result
    before its gated norm and after.
    """
    e, layers, inner = practice.number_bytes, model.state_layers, model.state_inner
    vectors = 2 * model.state_groups * model.state_size
    yield Activation("state_input", e * model.hidden, layers, "sequence")
    yield Activation("state_projected", e * (2 * inner + vectors + model.state_heads), layers, "tensor")
    yield Activation("state_convolved", e * (inner + vectors), layers, "tensor")
    yield Activation("state_chunks", 4 * inner * model.state_size / STATE_CHUNK, layers, "tensor")
    yield Activation("state_output", 2 * e * inner, layers, "tensor")


def _dense(model: Model, practice: Practice) -> Iterator[Activation]:
    e, h, layers = practice.number_bytes, model.hidden, model.dense_layers
    yield Activation("ffn_input", e * h * (1 - practice.norm_again), layers, "sequence")
    yield Activation("ffn_inside", e * _inside(model, practice) * model.ffn, layers, "tensor")
    yield Activation("ffn_mask", practice.dropout * practice.mask_bytes * h, layers, "sequence")


def _inside(model: Model, practice: Practice) -> Number:
    """Numbers kept per unit of width. Plain: before the activation and after. Gated: gate, activated gate, the other
    half, and their product; without the activated gate where one kernel does both.
    """
    return 2 + model.gated * (2 - practice.fused_gate) - practice.product_again


def _experts(model: Model, practice: Practice) -> Iterator[Activation]:
    """The router's logits and probabilities, in 32 bits; for each chosen expert a copy of the token, the inside, and
    the result, which the gradient of its probability needs. With balanced experts, spreading them over devices changes
    nothing: each sends away as many tokens as it gets.
    """
    e, h, layers, experts_per_token = practice.number_bytes, model.hidden, model.moe_layers, model.experts_per_token
    inside = e * _inside(model, practice)
    yield Activation("moe_input", e * h, layers, "sequence")
    yield Activation("router", 2 * 4 * model.experts, layers, "sequence")
    yield Activation("expert_input", experts_per_token * e * h, layers, "routed")
    yield Activation("expert_inside", experts_per_token * inside * model.expert_ffn, layers, "expert")
    yield Activation("expert_output", experts_per_token * e * h, layers, "routed")
    yield Activation("shared_inside", inside * model.shared_ffn, layers, "tensor")


def _modulation(model: Model, practice: Practice) -> Iterator[Activation]:
    """A diffusion layer scales the result of each norm and branch, and keeps both for the gradient of the scale."""
    norms = model.attention_layers + model.dense_layers
    kept = present(model.modulation) * practice.number_bytes * model.hidden
    yield Activation("scaled_norm", kept, norms, "sequence")
    yield Activation("scaled_branch", kept, norms, "sequence")
