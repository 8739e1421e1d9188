"""Device time of the kernels of one layer and of the head, for one micro-batch. Columns, one row per layout."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.model.flops import Matmul, forward_matmuls
from redline.model.model import Column, CountedModule, Model, Number, Operator
from redline.plan.train.kernels import kernel_s
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import Rates

# The gradients of fused attention: five products in the place of two, and they reach less of the peak.
ATTENTION_BACKWARD = 2.5 * 1.2
# What moves memory does so about twice as much backwards: it reads gradients as well as activations.
PASSES_BACKWARD = 1.75
# Widths that do not divide into these many numbers: what matmuls then reach of their rate. BigScience's runs of models
# that differ in little else took 15 % longer with 1,800 columns per device, and attention twice as long with heads of
# 108 numbers.
EVEN_WIDTH, UNEVEN_SHARE = 64, 0.87
EVEN_HEAD, UNEVEN_HEAD_SHARE = 8, 0.4
_IN_LAYERS = ("attention", "state", "dense", "experts", "shared", "router", "modulation")


@dataclass(frozen=True, kw_only=True)
class LayerTimes:
    """Seconds of one average layer, forward, alone on the device."""

    matmuls_s: Number
    """Backward takes this twice: for the gradient of inputs, and for that of weights."""
    attention_s: Number
    attention_backward_s: Number
    passes_s: Number
    """Kernels that only move memory."""


def tokens_per_device(batch: Batch, layout: Layout) -> Number:
    """Tokens of one micro-batch."""
    return layout.micro_batch * batch.sequence / layout.cp


def layer_times(model: Model, batch: Batch, layout: Layout, rates: Rates) -> LayerTimes:
    tokens = tokens_per_device(batch, layout)
    matmuls_s = sum(matmul_s(matmul, tokens, model, layout, rates) for matmul in layer_matmuls(model))
    fused = layout.flash == 1
    flash_s = _fused_attention_s(model, batch, layout, rates)
    scores_s = _unfused_attention_s(model, batch, layout, rates)
    share = model.attention_layers / model.layers
    return LayerTimes(
        matmuls_s=np.asarray(matmuls_s, np.float64),
        attention_s=share * np.where(fused, flash_s, scores_s),
        attention_backward_s=share * np.where(fused, ATTENTION_BACKWARD * flash_s, 2 * scores_s),
        passes_s=_passes_s(model, tokens, layout, rates),
    )


def layer_matmuls(model: Model) -> list[Matmul]:
    """Those of layers that any row has."""
    return [matmul for matmul in forward_matmuls(model) if matmul.part in _IN_LAYERS and np.any(matmul.n)]


def on_device(matmul: Matmul, tokens: Number, layout: Layout) -> tuple[Number, Number, Number, Number]:
    """Rows, n, k and matrices of one device: n or k is divided by tensor parallelism, experts also over devices."""
    rows = tokens * matmul.rows_per_token + layout.micro_batch * matmul.rows_per_sequence
    expert_tp = np.where(layout.expert_tp == 0, layout.tp, layout.expert_tp)
    parts = np.asarray(expert_tp if matmul.routed else layout.tp, np.float64)
    local = matmul.copies / layout.ep if matmul.routed else 1.0
    rows = rows * layout.imbalance * expert_tp / layout.tp if matmul.routed else rows
    n = matmul.n / parts if matmul.split == "out" else matmul.n
    k = matmul.k / parts if matmul.split == "in" else matmul.k
    return rows, n, k, local


def matmul_s(matmul: Matmul, tokens: Number, model: Model, layout: Layout, rates: Rates) -> Number:
    """A matmul of an average layer, on one device."""
    rows, n, k, local = on_device(matmul, tokens, layout)
    compute = rates.compute_flops_per_s * (rates.expert_efficiency if matmul.routed else 1.0) * _evenness(n, k)
    flops = 2.0 * rows * n * k
    moved = rates.matmul_bytes * (rows * k + local * n * k) + rates.number_bytes * rows * n
    return matmul.layers / model.layers * kernel_s(flops, moved, compute, rates.memory_bytes_per_s, rates.fixed_s)


def _evenness(n: Number, k: Number) -> Number:
    """What a matmul reaches where its widths suit the tensor cores, or do not."""
    return np.where((n % EVEN_WIDTH == 0) & (k % EVEN_WIDTH == 0), 1.0, UNEVEN_SHARE)


def _fused_attention_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """Two products of scores with keys and values: 2 s s d each per head, half of it where attention is causal.

    With context parallelism a kernel meets the keys of one device at a time, so it reaches what shorter sequences do.
    """
    seen = seen_tokens(model, batch)
    width = model.heads * (model.head_dim + model.value_dim) / layout.tp
    flops = 2.0 * tokens_per_device(batch, layout) * seen * width
    piece = batch.sequence / layout.cp
    reached = rates.attention_flops_per_s * piece / (piece + rates.attention_half)
    return kernel_s(flops, 0.0, reached, 1.0, rates.fixed_s)


def seen_tokens(model: Model, batch: Batch) -> Number:
    """Keys that a query meets, on average over layers: half of a causal sequence, or the window."""
    whole = np.asarray(batch.sequence * np.where(model.causal == 1, 0.5, 1.0), np.float64)
    windowed = np.minimum(whole, model.window)
    share = model.window_layers / np.maximum(model.attention_layers, 1)
    return (1 - share) * whole + share * windowed + model.cross_tokens


def _unfused_attention_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """All scores are computed, causal or not, and written to memory and read several times."""
    scores = layout.micro_batch * batch.sequence**2 / layout.cp * model.heads / layout.tp
    flops = 2.0 * scores * (model.head_dim + model.value_dim)
    moved = scores * rates.number_bytes * rates.score_passes
    even = np.where(model.head_dim % EVEN_HEAD == 0, 1.0, UNEVEN_HEAD_SHARE)
    return flops / (rates.compute_flops_per_s * even) + moved / rates.memory_bytes_per_s + 4 * rates.fixed_s


def _passes_s(model: Model, tokens: Number, layout: Layout, rates: Rates) -> Number:
    """Norms and residuals are the same on every tensor-parallel device, unless the sequence is split."""
    split = np.where(layout.sequence_parallel == 1, layout.tp, 1)
    dense, moe = model.dense_layers / model.layers, model.moe_layers / model.layers
    wide = dense * model.ffn + moe * (model.experts_per_token * model.expert_ffn + model.shared_ffn)
    copied = layout.imbalance * moe * model.experts_per_token * model.hidden / layout.tp  # rows to experts, and back
    numbers = rates.hidden_passes * model.hidden / split + rates.ffn_passes * (1 + model.gated) * wide / layout.tp
    return tokens * rates.number_bytes * (numbers + rates.expert_passes * copied) / rates.memory_bytes_per_s


def head_forward_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """Logits and loss: one matmul and several passes over numbers that are as many as tokens times vocabulary."""
    rows, n = tokens_per_device(batch, layout), model.vocab / layout.tp
    flops = 2.0 * rows * n * model.hidden
    moved = rates.number_bytes * (rows * model.hidden + n * model.hidden + rows * n)
    matmul_s = kernel_s(flops, moved, rates.head_flops_per_s, rates.memory_bytes_per_s, rates.fixed_s)
    return matmul_s + rates.logit_passes * rates.number_bytes * rows * n / rates.memory_bytes_per_s


# --- operators of a counted module ------------------------------------------------------------------------------------
# Each call of an operator takes max(FLOPs / compute, bytes / memory) plus a fixed time, with the constants of matmuls.
# No table says what convolutions reach: they are taken to reach what matmuls of 16 bits do; grouped ones reach less.
# FLOPs and bytes grow with the micro-batch, but for the bytes of parameters and of their gradients. Bytes are those of
# the number format that is planned for, whatever format the module was built in. Numbers that a format keeps in 32
# bits, as statistics of norms, are taken to be as short as the others.


# In the forward pass of a transformer's layer, as torch counts them: 10 in GPT-2, 34 in Llama with its norms and
# rotation written out. What a stack's host needs for a layer, over these, is what it needs for an operator.
OPERATORS_PER_LAYER = 20
# How often the operators of GPT-2's layer read or write its hidden width and its four times as wide feed-forward part:
# two norms and two sums of residuals; an activation function.
COUNTED_HIDDEN, COUNTED_FFN = 10.0, 2.0
# The same of logits in the loss and its gradient: 3 and 5. Stacks have as many forward, and twice as many backward.
LOSSES, COUNTED_LOGITS, PASSES_OF_LOSS = ("log_softmax", "nll_loss"), 8.0, 3.0
# They read some rows of a table, not all of it.
LOOKUPS = ("embedding", "index_select", "gather", "index")
# Backwards, fused attention has 5 products for the 2 of the forward pass; one of them it only computes again.
COUNTED_BACKWARD, NEEDED_BACKWARD = 2.5, 2.0


def operators_s(module: CountedModule, micro_batch: Number, rates: Rates, *, backward: bool) -> Column:
    """Device time of one pass of one micro-batch. `rates` has plain numbers, `micro_batch` may be a column."""
    # Few sizes of micro-batches occur in many layouts.
    sizes, at = np.unique(np.atleast_1d(micro_batch), return_inverse=True)
    chosen = [operator for operator in module.operators if operator.backward == backward]
    total = np.zeros(len(sizes))
    for operator in chosen:
        total += _operator_s(operator, sizes / module.samples, module.number_bytes, rates)
    return total[at]


def _operator_s(operator: Operator, scale: NDArray[np.float64], number_bytes: float, rates: Rates) -> Number:
    """All calls of it, on `scale` times the example inputs."""
    table = 0 if operator.name in LOOKUPS and not operator.backward else operator.parameter_bytes
    moved = scale * (operator.bytes - operator.parameter_bytes) + table
    shorter = rates.number_bytes / number_bytes
    calls = operator.calls
    moved = moved * (1.0 if operator.flops else _stretched(operator, rates))
    flops = scale * done_flops(operator)
    once_s = kernel_s(
        flops / calls, moved * shorter / calls, _compute(operator, rates), rates.memory_bytes_per_s, rates.fixed_s
    )
    return calls * once_s


def _stretched(operator: Operator, rates: Rates) -> Number:
    """What a stack moves in transformers besides matmuls and attention, over what operators count there: more where it
    casts and copies, less where it fuses.
    """
    if operator.name.strip("_").startswith(LOSSES):
        return PASSES_OF_LOSS * rates.logit_passes / COUNTED_LOGITS
    twice = 1.5 if "batch_norm" in operator.name or "group_norm" in operator.name else 1.0
    return twice * (rates.hidden_passes + 4 * rates.ffn_passes) / (COUNTED_HIDDEN + 4 * COUNTED_FFN)


def _compute(operator: Operator, rates: Rates) -> Number:
    if is_attention(operator):
        keys = operator.shapes[2 if operator.backward else 1][-2]
        reached = rates.attention_flops_per_s * keys / (keys + rates.attention_half)
        return reached * COUNTED_BACKWARD / ATTENTION_BACKWARD if operator.backward else reached
    short = rates.matmul_bytes < rates.number_bytes
    return rates.head_flops_per_s if short and "conv" in operator.name else rates.compute_flops_per_s


def is_attention(operator: Operator) -> bool:
    return "attention" in operator.name and operator.flops > 0


def done_flops(operator: Operator) -> float:
    """Without pairs of tokens that causal attention leaves out."""
    return operator.flops * (0.5 if operator.causal else 1.0)


def needed_flops(module: CountedModule) -> float:
    """FLOPs of both passes on one sample: nothing that is computed twice."""
    again = NEEDED_BACKWARD / COUNTED_BACKWARD
    every = (
        done_flops(operator) * (again if operator.backward and is_attention(operator) else 1)
        for operator in module.operators
    )
    return sum(every) / module.samples


def host_forward_s(module: CountedModule, rates: Rates) -> Number:
    """What the host needs to launch the forward pass."""
    calls = sum(operator.calls for operator in module.operators if not operator.backward)
    return calls * rates.host_layer_s / OPERATORS_PER_LAYER
