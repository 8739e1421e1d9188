"""One pass through the model: over prompts, at the compute roof, or over a token of each sequence, at the memory roof.

A kernel takes the longer of its arithmetic and its reading, each at the share of the machine's best that engines reach.
Weights are read once per pass, caches once per sequence; of experts, those that some token chose. All stages of a
pipeline are passed one after the other.
"""

import numpy as np

from redline.model.model import Column, Model, Number
from redline.planner.serve.kv_capacity import attention_tp, cache_bytes
from redline.planner.serve.numbers import expert_share_touched, numbers
from redline.planner.serve.numbers_or_columns import column, ratio
from redline.planner.serve.serving_cost import PassTime
from redline.planner.serve.serving_rates import Constants
from redline.planner.serve.serving_setup import Setup

_ACTIVATION_BYTES = 2


def decode_pass(setup: Setup, batch: Number, context: Number) -> PassTime:
    """One token of each of `batch` sequences, each with `context` tokens before it."""
    batch, context = column(batch), column(context)
    model, engine, device = setup.model, setup.engine, setup.device
    requests = batch / setup.where.attention_dp
    reading = cache_bytes(setup, context) * requests / (column(engine.cache_share) * device.memory_bytes_per_s)
    scores = _decode_attention_flops(model, context) * requests / attention_tp(setup.where)
    attention = scores / (column(engine.compute_share) * device.peak_bf16)
    compute, memory = _longer(*_matmuls(setup, batch, batch), attention, reading)
    overhead = (
        mixing_layers(model) * engine.layer_s
        + column(model.moe_layers) * _expert_overhead_s(setup)
        + engine.step_s
        + batch * engine.sequence_s
    )
    return PassTime(
        compute_s=compute, memory_s=memory, communication_s=_communication(setup, batch), overhead_s=column(overhead)
    )


def prompt_pass(setup: Setup, tokens: Number, length: Number) -> PassTime:
    """`tokens` tokens of prompts that are each `length` long, in one pass."""
    tokens, length = column(tokens), column(length)
    model, engine = setup.model, setup.engine
    ends = np.maximum(tokens / np.maximum(length, 1.0), 1.0)
    compute, memory = _matmuls(setup, tokens, ends)
    peak = np.where(column(setup.form.cache_bytes) <= 1, column(setup.device.peak_fp8), column(setup.device.peak_bf16))
    scores = _prompt_attention_flops(model, length) * tokens / setup.where.tp
    overhead = mixing_layers(model) * engine.prompt_layer_s + column(model.moe_layers) * engine.prompt_expert_layer_s
    return PassTime(
        compute_s=compute + scores / (column(engine.attention_share) * peak),
        memory_s=memory,
        communication_s=_communication(setup, tokens),
        overhead_s=overhead + engine.prompt_s,
    )


def mixing_layers(model: Model) -> Column:
    """Layers in which tokens see each other. Feed-forward parts that are layers of their own belong to them."""
    return column(model.attention_layers) + model.state_layers


def _expert_overhead_s(setup: Setup) -> Column:
    quantised = np.where(column(setup.form.compute) < 2, setup.engine.quantised_layer_s, 0.0)
    return column(setup.engine.expert_layer_s) + quantised


# --- matrices ---------------------------------------------------------------------------------------------------------


def _matmuls(setup: Setup, tokens: Column, logits: Column) -> tuple[Column, Column]:
    """Seconds at the compute roof and at the memory roof, of all matrices; each kind counts at its longer one."""
    n, engine, where = numbers(setup.model), setup.engine, setup.where
    tp, dp = column(where.tp), column(where.attention_dp)
    flops, read = matmul_flops_per_s(setup), column(engine.memory_share) * setup.device.memory_bytes_per_s
    layer_bytes = _with_unpacking(setup.form.layer_bytes, setup)
    split = attention_tp(where)
    none = column(0.0)
    sums = _longer(
        none, none, 2 * n.attention * (tokens / dp) / split / flops, n.attention / split * layer_bytes / read
    )
    sums = _longer(*sums, 2 * n.dense * tokens / tp / flops, n.dense / tp * layer_bytes / read)
    share = column(engine.expert_share)
    arithmetic, reading = _experts(setup, n.experts / tp, tokens)
    sums = _longer(*sums, arithmetic / (flops * share), reading / (read * share))
    head = n.head / np.where(column(where.head_tp) > 0, tp, 1.0)
    plain = column(engine.compute_share) * setup.device.peak_bf16
    return _longer(*sums, 2 * head * logits / plain, head * _with_unpacking(setup.form.head_bytes, setup) / read)


def matmul_flops_per_s(setup: Setup) -> Column:
    """What matmuls of layers sustain in the format."""
    narrow = np.where(column(setup.form.compute) < 2, column(setup.engine.narrow_share), 1.0)
    return column(setup.engine.compute_share) * narrow * peak_flops(setup)


def peak_flops(setup: Setup) -> Column:
    compute, device = column(setup.form.compute), setup.device
    eight = np.where(compute <= 1, column(device.peak_fp8), column(device.peak_bf16))
    return np.where(compute <= 0.5, column(device.peak_fp4), eight)


def _with_unpacking(weight_bytes: Number, setup: Setup) -> Column:
    """Bytes per weight, and those whose reading takes as long as making it as wide as what is computed with."""
    narrower = column(weight_bytes) + 0.1 < setup.form.compute
    return column(weight_bytes) + np.where(narrower, setup.engine.unpack_bytes, 0.0)


def _experts(setup: Setup, held: Column, tokens: Column) -> tuple[Column, Column]:
    """FLOPs and bytes of all layers with experts, on a device that holds `held` numbers: balanced over devices."""
    model = setup.model
    chosen = ratio(model.experts_per_token, model.experts)
    touched = expert_share_touched(model.experts, model.experts_per_token, tokens)
    return 2 * held * chosen * tokens, held * touched * _with_unpacking(setup.form.expert_bytes, setup)


def _longer(compute: Column, memory: Column, arithmetic: Column, reading: Column) -> tuple[Column, Column]:
    """The sums so far, with the longer of two times added to its own sum."""
    bound = arithmetic > reading
    return compute + np.where(bound, arithmetic, 0.0), memory + np.where(bound, 0.0, reading)


# --- attention --------------------------------------------------------------------------------------------------------


def _decode_attention_flops(model: Model, context: Column) -> Column:
    """Per sequence, over all layers: a product with every key seen and one with every value.

    Latent attention works on the latent itself: every head sees kv_rank + rope_dim numbers of each token, then kv_rank.
    """
    latent = 2 * column(model.kv_rank) + model.rope_dim
    width = np.where(column(model.kv_rank) > 0, latent, column(model.head_dim) + model.value_dim)
    return 2 * column(model.heads) * width * _seen(model, context)


def _prompt_attention_flops(model: Model, length: Column) -> Column:
    """Per token, over all layers: on average it sees half of the prompt."""
    width = column(model.head_dim) + model.value_dim
    return 2 * column(model.heads) * width * _seen(model, length / 2)


def _seen(model: Model, context: Column) -> Column:
    """Tokens that a token sees, summed over attention layers."""
    window = np.where(column(model.window) > 0, np.minimum(context, column(model.window)), context)
    full = column(model.attention_layers) - model.window_layers
    return full * context + column(model.window_layers) * window


# --- communication ----------------------------------------------------------------------------------------------------


def reduce_latency_s(engine: Constants, tp: Number) -> Column:
    """Of an all-reduce of hardly any data: on all GPUs that were measured it grows as tp + 2 (within 10 %)."""
    tp = column(tp)
    return np.where(tp > 1, column(engine.reduce_s) * (tp + 2) / 10, 0.0)


def _communication(setup: Setup, tokens: Column) -> Column:
    """Two all-reduces per layer, of the activations of all tokens; 2 (N-1)/N of them cross the slowest link.

    With attention data parallel, tokens go to the devices of their experts and back instead: experts_per_token copies
    each, at most one per device, of the tokens of one device. Stages of a pipeline hand the activations on.
    """
    model, where = setup.model, setup.where
    tp, dp = column(where.tp), column(where.attention_dp)
    link = column(setup.engine.link_share) * setup.device.link_bytes_per_s
    size = tokens * column(model.hidden) * _ACTIVATION_BYTES
    copies = np.minimum(np.maximum(column(model.experts_per_token), 1.0), tp) / tp
    moved = np.where(dp > 1, size * copies, 2 * size) * (tp - 1) / tp
    reduce_s = reduce_latency_s(setup.engine, tp) + moved / link
    handing_on = (column(where.pp) - 1) * (size / link + reduce_latency_s(setup.engine, 2.0))
    return mixing_layers(model) * 2 * reduce_s + handing_on
