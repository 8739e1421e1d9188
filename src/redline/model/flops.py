"""Matmuls of a forward pass, and FLOPs of both passes by what they are spent on. A multiply and an add count as two.

Matmuls. Each has a shape, layers that have it, and rows. A row of k numbers times a matrix of k x n is n sums of k
products: 2 n k FLOPs, n k weights, k + n numbers of traffic. What a model lacks has an n or k of 0, so that different
models share columns.

Attention. Per head, a query and a key give one score from head_dim products, and that score weighs value_dim numbers:
2 (head_dim + value_dim) for each pair of a query and a key. How many pairs are counted is a convention, so it is
always said (`Pairs`): sources differ by a factor of two on causal models.

Backward. A matmul needs the gradient of its input and of its matrix, each as much work as the forward pass; where
nothing before it is trained, only the second. Attention has two products forward and four backward. Fused attention
computes the scores a fifth time rather than keep them: 5 / 2 of the forward pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import numpy as np

from redline.model.model import Model, Number

Part = Literal["attention", "state", "dense", "experts", "shared", "router", "modulation", "embedding", "head"]
Split = Literal["out", "in", "none"]


@dataclass(frozen=True)
class Matmul:
    """One matrix, in every layer that has it."""

    name: str
    part: Part
    n: Number  # outputs
    k: Number  # inputs
    layers: Number
    split: Split
    """What tensor parallelism divides: outputs, inputs (an all-reduce follows), or none: each device has it all."""
    rows_per_token: Number = 1
    rows_per_sequence: Number = 0
    """Rows that do not grow with the sequence: one for its time, one per token of its condition."""
    copies: Number = 1  # matrices of this shape per layer, of which a token meets `rows_per_token`: the experts
    leaf: bool = False
    """True where nothing before it is trained, so that the backward pass needs no gradient of its input."""

    @property
    def routed(self) -> bool:
        """True for the experts that a router chooses from."""
        return self.part == "experts"

    @property
    def weights(self) -> Number:
        """Numbers in all its matrices, of all layers."""
        return self.n * self.k * self.copies * self.layers


def present(number: Number) -> Number:
    """1 where a number is above 0, else 0."""
    if isinstance(number, np.ndarray):
        return np.where(number > 0, 1.0, 0.0)
    return int(number > 0)


def forward_matmuls(model: Model) -> tuple[Matmul, ...]:
    """All of them, about in the order in which they run. The same names in the same order for every model."""
    return (
        *_embedding(model),
        *_attention(model),
        *_latent_attention(model),
        *_cross_attention(model),
        *_joint(model),
        *_state(model),
        *_dense(model),
        *_experts(model),
        *_head(model),
    )


def _per_sequence(matmul: Matmul, rows: Number = 1) -> Matmul:
    return replace(matmul, rows_per_token=0, rows_per_sequence=rows)


def _embedding(model: Model) -> Iterator[Matmul]:
    """Patches to tokens; the time of a diffusion model to the numbers that modulate its layers."""
    h, copies = model.hidden, model.time_copies
    timed = h * present(model.time_width)
    patched = h * present(model.patch_in)
    yield Matmul("patch_in", "embedding", patched, model.patch_in, 1, "none", leaf=True)
    yield _per_sequence(Matmul("time_in", "embedding", timed, model.time_width, copies, "none", leaf=True))
    yield _per_sequence(Matmul("time_out", "embedding", timed, h, copies, "none"))
    yield _per_sequence(Matmul("modulation", "modulation", model.modulation * h, h, model.layers, "none"))


def _attention(model: Model) -> Iterator[Matmul]:
    """One matrix makes queries, keys and values of all heads. With latent attention it is absent: see below."""
    plain = 1 - present(model.kv_rank)
    qkv = model.heads * model.head_dim + model.kv_heads * (model.head_dim + model.value_dim)
    layers = model.attention_layers
    yield Matmul("qkv", "attention", plain * qkv, model.hidden, layers, "out")
    yield Matmul("output", "attention", model.hidden, model.heads * model.value_dim, layers, "in")


def _latent_attention(model: Model) -> Iterator[Matmul]:
    """MLA: queries pass through q_rank numbers, keys and values through kv_rank. Each device has all of the matrices
    down, because all heads read their results; kv_down also makes the rotated part of keys, which all heads share.
    Without a q_rank, queries are made directly.
    """
    h, layers = model.hidden, model.attention_layers
    latent, low = present(model.kv_rank), present(model.q_rank)
    queries = latent * model.heads * model.head_dim
    keys_values = latent * model.heads * (model.head_dim - model.rope_dim + model.value_dim)
    kv_low = latent * (model.kv_rank + model.rope_dim)
    yield Matmul("q_down", "attention", latent * model.q_rank, h, layers, "none")
    yield Matmul("q_up", "attention", queries, low * model.q_rank + (1 - low) * h, layers, "out")
    yield Matmul("kv_down", "attention", kv_low, h, layers, "none")
    yield Matmul("kv_up", "attention", keys_values, model.kv_rank, layers, "out")


def _cross_attention(model: Model) -> Iterator[Matmul]:
    """Queries of tokens; keys and values of the condition, once per sequence."""
    h, inner, layers = model.hidden, model.heads * model.head_dim, model.attention_layers
    crossed = present(model.cross_tokens) * (1 - present(model.joint_layers))
    yield Matmul("cross_q", "attention", crossed * inner, h, layers, "out")
    keys_values = Matmul("cross_kv", "attention", crossed * 2 * inner, h, layers, "out")
    yield _per_sequence(keys_values, model.cross_tokens)
    yield Matmul("cross_output", "attention", crossed * h, inner, layers, "in")


def _joint(model: Model) -> Iterator[Matmul]:
    """Matrices of the condition's own tokens, in layers where these attend together with the others.

    The last such layer makes only queries, keys and values of them, with two modulations: nothing reads more.
    """
    h, inner, rows = model.hidden, model.heads * model.head_dim, model.cross_tokens
    joint, layers = present(model.joint_layers), model.joint_layers
    further = layers - joint
    modulated = (further * model.modulation + joint * 2) * h
    yield _per_sequence(Matmul("joint_modulation", "modulation", modulated, h, joint, "none"))
    yield _per_sequence(Matmul("joint_qkv", "attention", joint * 3 * inner, h, layers, "out"), rows)
    yield _per_sequence(Matmul("joint_output", "attention", joint * h, inner, further, "in"), rows)
    up = joint * (1 + model.gated) * model.ffn
    yield _per_sequence(Matmul("joint_up", "dense", up, h, further, "out"), rows)
    yield _per_sequence(Matmul("joint_down", "dense", joint * h, model.ffn, further, "in"), rows)


def _state(model: Model) -> Iterator[Matmul]:
    """Mamba-2: one matrix makes the gate, the values, the two state vectors per group and a step size per head."""
    inner, layers = model.state_inner, model.state_layers
    made = 2 * inner + 2 * model.state_groups * model.state_size + model.state_heads
    yield Matmul("state_in", "state", made, model.hidden, layers, "out")
    yield Matmul("state_out", "state", model.hidden * present(inner), inner, layers, "in")


def _dense(model: Model) -> Iterator[Matmul]:
    """Gate and up are one matmul, as kernels run them."""
    h, layers = model.hidden, model.dense_layers
    yield Matmul("up", "dense", (1 + model.gated) * model.ffn, h, layers, "out")
    yield Matmul("down", "dense", h * present(model.ffn), model.ffn, layers, "in")


def _experts(model: Model) -> Iterator[Matmul]:
    """The router, the experts it chooses, and those that every token passes through."""
    h, layers, both = model.hidden, model.moe_layers, 1 + model.gated
    wide, shared = model.expert_ffn, model.shared_ffn
    per_token, copies = model.experts_per_token, model.experts
    yield Matmul("router", "router", copies, h, layers, "none")
    yield Matmul("expert_up", "experts", both * wide, h, layers, "out", rows_per_token=per_token, copies=copies)
    yield Matmul(
        "expert_down", "experts", h * present(wide), wide, layers, "in", rows_per_token=per_token, copies=copies
    )
    yield Matmul("shared_up", "shared", both * shared, h, layers, "out")
    yield Matmul("shared_down", "shared", h * present(shared), shared, layers, "in")
    yield Matmul("shared_gate", "shared", model.shared_gate, h, layers, "none")


def _head(model: Model) -> Iterator[Matmul]:
    """Logits, or patches; before them the modulation of a diffusion model's last norm, or BERT's square matrix."""
    h = model.hidden
    yield _per_sequence(Matmul("last_modulation", "head", 2 * h * present(model.modulation), h, 1, "none"))
    yield Matmul("head_dense", "head", model.head_dense * h, h, 1, "none")
    yield Matmul("patch_out", "head", model.patch_out, h, 1, "none")
    yield Matmul("head", "head", model.vocab, h, 1, "out")


STATE_CHUNK = 256  # tokens per chunk in which Mamba-2's kernels turn the recurrence into matmuls


class Pairs(Enum):
    """Which pairs of a query and a key count."""

    SEEN = "seen"  # those that the mask lets through: half of a causal square, and less with windows
    ALL = "all"  # the full square in every layer, as torch.utils.flop_counter and many papers count


@dataclass(frozen=True, kw_only=True)
class Flops:
    """FLOPs of a pass, by what they are spent on. The parts are exclusive."""

    layers: Number  # matmuls with weights, in layers and embeddings
    attention: Number  # scores, and the sums that they weigh
    state: Number  # recurrence and convolution of state-space layers
    head: Number

    @property
    def total(self) -> Number:
        return self.layers + self.attention + self.state + self.head


def forward_flops(model: Model, tokens: Number, sequence: Number, pairs: Pairs) -> Flops:
    """For this many tokens, in sequences of this length."""
    head, layers = _matmul_flops(model, tokens, sequence, backward=False)
    return Flops(
        layers=layers,
        attention=_attention_flops(model, tokens, sequence, pairs),
        state=_state_flops(model) * tokens,
        head=head,
    )


def backward_flops(model: Model, tokens: Number, sequence: Number, pairs: Pairs, flash: Number = 1) -> Flops:
    """Both gradients, without recomputation of activations; `flash`: 1 where attention is fused, else 0."""
    head, layers = _matmul_flops(model, tokens, sequence, backward=True)
    return Flops(
        layers=layers,
        attention=_attention_flops(model, tokens, sequence, pairs) * (2 + 0.5 * flash),
        state=_state_flops(model) * tokens * 2,
        head=head,
    )


def matmul_rows(matmul: Matmul, tokens: Number, sequence: Number) -> Number:
    """Rows that meet the matrix in one layer; of experts: rows over all of them."""
    return matmul.rows_per_token * tokens + matmul.rows_per_sequence * tokens / sequence


def attention_pairs(model: Model, sequence: Number, pairs: Pairs) -> Number:
    """Pairs of a query and a key in all layers, for one sequence.

    A causal query i sees i keys, so a sequence of s has s (s + 1) / 2; with a window w, those beyond the first w see w
    each. In joint layers the tokens of the condition are part of the sequence.
    """
    joined = sequence + present(model.joint_layers) * model.cross_tokens
    crossed = model.attention_layers * (1 - present(model.joint_layers)) * sequence * model.cross_tokens
    square = joined * joined
    if pairs is Pairs.ALL:
        return model.attention_layers * square + crossed
    full = model.causal * joined * (joined + 1) / 2 + (1 - model.causal) * square
    return (
        (model.attention_layers - model.window_layers) * full + model.window_layers * _windowed(model, joined) + crossed
    )


def _windowed(model: Model, sequence: Number) -> Number:
    window = np.minimum(sequence, model.window + (1 - present(model.window)) * sequence)
    causal = window * (window + 1) / 2 + (sequence - window) * window
    both_sides = sequence * window
    windowed: Number = model.causal * causal + (1 - model.causal) * both_sides
    return windowed


def _matmul_flops(model: Model, tokens: Number, sequence: Number, *, backward: bool) -> tuple[Number, Number]:
    """Of the head, and of everything else."""
    head: Number = 0
    layers: Number = 0
    for matmul in forward_matmuls(model):
        flops = 2 * matmul.n * matmul.k * matmul.layers * matmul_rows(matmul, tokens, sequence)
        flops = flops * (1 if matmul.leaf or not backward else 2)
        if matmul.part == "head":
            head = head + flops
        else:
            layers = layers + flops
    return head, layers


def _attention_flops(model: Model, tokens: Number, sequence: Number, pairs: Pairs) -> Number:
    per_pair = 2 * model.heads * (model.head_dim + model.value_dim)
    return per_pair * attention_pairs(model, sequence, pairs) * tokens / sequence


def _state_flops(model: Model) -> Number:
    """Per token, in all layers. In chunks of Q tokens: products of state vectors with each other, 2 Q size per group;
    their sums of values, 2 Q inner; into the state and out of it, 2 size inner each. The convolution: 2 per tap.
    """
    inner, size, groups = model.state_inner, model.state_size, model.state_groups
    inside = 2 * STATE_CHUNK * (groups * size + inner)
    convolution = 2 * model.state_conv * (inner + 2 * groups * size)
    return model.state_layers * (inside + 4 * size * inner + convolution)
