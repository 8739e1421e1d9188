"""FLOPs of a forward and a backward pass, by what they are spent on. A multiply and an add count as two.

Matmuls. A row of k numbers times a matrix of k x n is n sums of k products: 2 n k.

Attention. Per head, a query and a key give one score from head_dim products, and that score weighs value_dim numbers:
2 (head_dim + value_dim) for each pair of a query and a key. How many pairs are counted is a convention, so it is
always said (`Pairs`): sources differ by a factor of two on causal models.

Backward. A matmul needs the gradient of its input and of its matrix, each as much work as the forward pass; where
nothing before it is trained, only the second. Attention has two products forward and four backward. Fused attention
computes the scores a fifth time rather than keep them: 5 / 2 of the forward pass.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from redline.model.matmuls import Matmul, forward_matmuls, present
from redline.model.model import Model, Number

STATE_CHUNK = 256
"""Tokens per chunk in which Mamba-2's kernels turn the recurrence into matmuls."""


class Pairs(Enum):
    """Which pairs of a query and a key count."""

    SEEN = "seen"
    """Those that the mask lets through: half of a causal square, and less with windows."""
    ALL = "all"
    """The full square in every layer, as torch.utils.flop_counter and many papers count."""


@dataclass(frozen=True, kw_only=True)
class Flops:
    """Of a pass, by what they are spent on. The parts are exclusive."""

    layers: Number
    """Matmuls with weights, in layers and embeddings."""
    attention: Number
    """Scores, and the sums that they weigh."""
    state: Number
    """Recurrence and convolution of state-space layers."""
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
