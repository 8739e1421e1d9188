"""One pass through the model: over prompts, at the compute roof, or over a token of each sequence, at the memory roof.

A kernel takes the longer of its arithmetic and its reading, each at the share of the machine's best that engines reach.
Weights are read once per pass, caches once per sequence; of experts, those that some token chose. All stages of a
pipeline are passed one after the other.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from redline.model.model import Column, Model, Number
from redline.model.parameters import count_parameters, numbers_per_token
from redline.plan.serve.setup import AcceleratorPeaks, Constants, Deployment, Format, Setup, column, ratio

# --- figures ----------------------------------------------------------------------------------------------------------


class ServingLimit(IntEnum):
    """Which roof takes the most of a time."""

    COMPUTE = 0
    MEMORY = 1
    COMMUNICATION = 2
    OVERHEAD = 3


@dataclass(frozen=True, kw_only=True)
class PassTime:
    """Seconds of one pass through the model. The parts are exclusive."""

    compute_s: Column
    """Of kernels that the peak limits."""
    memory_s: Column
    """Of kernels that reading weights or caches limits."""
    communication_s: Column
    overhead_s: Column
    """Launches, tiny kernels, host, sampling."""

    @property
    def parts(self) -> tuple[Column, ...]:
        return tuple(np.broadcast_arrays(self.compute_s, self.memory_s, self.communication_s, self.overhead_s))

    @property
    def total_s(self) -> Column:
        total: Column = np.sum(self.parts, axis=0)
        return total

    def times(self, factor: Column) -> "PassTime":
        return PassTime(**{name: part * factor for name, part in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class ServeOutcome:
    """One copy of the model under steady traffic."""

    batch: Column
    """Sequences in a decode step: what is asked for, or what memory has room for."""
    most: Column
    """Sequences that memory has room for at once."""
    fits: Column
    """1 where the weights and at least one sequence have room."""
    ttft_s: Column
    """Mean time to the first token, with waiting."""
    tpot_s: Column
    """Mean time per further token, with the prompts of others that come between."""
    step: PassTime
    """One decode step alone."""
    prompt: PassTime
    """The pass over one prompt alone."""
    tokens_per_s: Column
    """Output tokens of the copy."""
    tokens_per_s_device: Column
    tokens_per_s_user: Column
    latency_s: Column
    """Mean time from a request to its last token."""
    weights_bytes: Column
    """Per device."""
    cache_bytes: Column
    """Per device, when `batch` sequences are half way through their output."""


# --- numbers of a model -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Counts of numbers, in columns: one row per model."""

    attention: Column
    """In all attention and state layers."""
    dense: Column
    """In feed-forward parts that every token passes: dense layers, shared experts, routers."""
    experts: Column
    """In all routed experts of all layers."""
    head: Column
    embedding: Column
    """Beside the head; 0 where the head is the embedding."""
    cache_token: Column
    """That a token leaves in the caches of all layers that see everything before."""
    cache_window: Column
    """That a token leaves in the caches of layers that see a window only."""
    cache_heads: Column
    """Into how many parts tensor parallelism can split the cache: a latent has no heads to split."""
    state: Column
    """That a sequence keeps in state layers, whatever its length."""


def numbers(model: Model) -> Numbers:
    counted = count_parameters(model)
    per_token = column(numbers_per_token(model))
    head = column(model.vocab) * model.hidden
    return Numbers(
        attention=column(counted.attention + counted.state),
        dense=column(counted.dense + counted.shared + counted.router),
        experts=column(counted.experts),
        head=head,
        embedding=head * (1 - column(model.tied)),
        cache_token=(column(model.attention_layers) - model.window_layers) * per_token,
        cache_window=column(model.window_layers) * per_token,
        cache_heads=np.where(column(model.kv_rank) > 0, 1.0, column(model.kv_heads)),
        state=column(model.state_layers) * model.state_inner * model.state_size,
    )


def expert_share_touched(experts: Number, per_token: Number, tokens: Number) -> Column:
    """Which share of the experts of a layer `tokens` tokens are expected to need, each choosing `per_token` at random.

    A token leaves an expert out with probability 1 - k/E, so n tokens need the share 1 - (1 - k/E)^n of them.
    """
    experts = column(experts)
    share = np.divide(per_token, experts, out=np.zeros(np.broadcast(per_token, experts).shape), where=experts > 0)
    touched: Column = -np.expm1(column(tokens) * np.log1p(-np.minimum(share, 1 - 1e-12)))
    return touched


# --- free memory ------------------------------------------------------------------------------------------------------


def attention_tp(where: Deployment) -> Column:
    """Over how many devices attention is split: all of tp, or one where it is data parallel."""
    return column(where.tp) / where.attention_dp


def weights_bytes(setup: Setup) -> Column:
    """Per device."""
    n, form, where = numbers(setup.model), setup.form, setup.where
    tp = column(where.tp)
    layers = (n.attention / attention_tp(where) + n.dense / tp) * form.layer_bytes
    head_split = np.where(column(where.head_tp) > 0, tp, 1.0)
    ends = (n.head + n.embedding) * form.head_bytes / head_split
    return (layers + n.experts * form.expert_bytes / tp) / where.pp + ends


def cache_bytes(setup: Setup, tokens: Number) -> Column:
    """Of a sequence of `tokens` tokens, over all stages of a pipeline, on each device that holds part of it.

    Heads are split over devices until there is one each; more devices hold copies. A latent has no heads to split.
    State layers keep the same numbers for any length, in 4 bytes each.
    """
    n, where = numbers(setup.model), setup.where
    tokens, window = column(tokens), column(setup.model.window)
    split = np.minimum(attention_tp(where), n.cache_heads)
    seen = np.where(window > 0, np.minimum(tokens, window), tokens)
    kept = (n.cache_token * tokens + n.cache_window * seen) * setup.form.cache_bytes / split
    return kept + n.state * 4 / attention_tp(where)


def most_sequences(setup: Setup, tokens: Number) -> Column:
    """How many sequences of `tokens` tokens have room beside the weights, over the whole copy; below 1: none has."""
    memory = column(setup.device.memory_bytes) * (1 - column(setup.engine.reserve))
    free = memory - weights_bytes(setup)
    stage_bytes = cache_bytes(setup, tokens) / setup.where.pp
    return np.maximum(free, 0.0) / np.maximum(stage_bytes, 1.0) * setup.where.attention_dp


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
    """An all-reduce of hardly any data: on all GPUs that were measured it grows as tp + 2 (within 10 %)."""
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


# --- constants of a measured engine -----------------------------------------------------------------------------------
# An engine's constants from one measured step, where nothing was fitted: the machine's peaks, and what is left.
#
# Reading is taken at the share of the machine's peak that the step's operators reach, arithmetic at the share at which
# prompts took as long as they took. What the model takes beyond that counts as a cost of each layer, what the engine
# takes around it as a cost of each step.


_LEAST_SHARE, _HALVINGS = 1e-4, 40
_AT_THE_PEAKS = Constants(
    memory_share=1.0,
    compute_share=1.0,
    attention_share=1.0,
    cache_share=1.0,
    layer_s=0.0,
    expert_layer_s=0.0,
    step_s=0.0,
    sequence_s=0.0,
    prompt_layer_s=0.0,
    prompt_expert_layer_s=0.0,
    prompt_s=0.0,
    prompt_hidden=0.0,
    request_s=0.0,
)


@dataclass(frozen=True, kw_only=True)
class MeasuredPrompts:
    """The mean of steps that computed tokens of prompts."""

    tokens: float  # in a step
    length: float  # of a prompt
    model_s: float  # of those tokens


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """Steps that generate one token for each of `batch` requests, with `context` tokens before it, on one device."""

    engine: str
    model: Model
    steps: int  # that were measured; times are their means
    batch: float
    context: float
    model_s: float  # with logits and the choice of tokens
    around_s: float  # the engine's own time
    peak_share: float  # of the machine's peaks, that its matrix products reach; 1 where no window was recorded
    prompts: MeasuredPrompts | None  # None where none was computed
    most_tokens: float  # in a pass over prompts
    most_sequences: float


@dataclass(frozen=True, kw_only=True)
class MeasuredEngine:
    """A measured step, the least that the machine needs for it at its peaks, and the constants that follow."""

    step: MeasuredStep
    roof_s: float
    constants: Constants


def engine_of(step: MeasuredStep, form: Format, device: AcceleratorPeaks) -> MeasuredEngine:
    setup = Setup(model=step.model, form=form, where=Deployment(), device=device, engine=_AT_THE_PEAKS)
    roof_s = float(decode_pass(setup, step.batch, step.context).total_s[0])
    share = max(roof_s / step.model_s, step.peak_share)  # it takes no longer than it took
    known = replace(_AT_THE_PEAKS, memory_share=share, compute_share=share, cache_share=share)
    if step.prompts is not None:
        compute_share = max(_compute_share(replace(setup, engine=known), step.prompts), share)
        known = replace(known, compute_share=compute_share, attention_share=compute_share)
    least_s = float(decode_pass(replace(setup, engine=known), step.batch, step.context).total_s[0])
    layer_s = max(step.model_s - least_s, 0.0) / float(mixing_layers(step.model)[0])
    constants = replace(
        known,
        layer_s=layer_s,
        step_s=step.around_s,
        prompt_layer_s=layer_s,
        prompt_s=step.around_s,
        chunk=step.most_tokens,
        most=step.most_sequences,
    )
    return MeasuredEngine(step=step, roof_s=roof_s, constants=constants)


def _compute_share(setup: Setup, prompts: MeasuredPrompts) -> float:
    """The share of the peak with which a pass over prompts takes as long as it took; found by halving."""
    low, high = _LEAST_SHARE, 1.0
    for _ in range(_HALVINGS):
        share = (low * high) ** 0.5
        engine = replace(setup.engine, compute_share=share, attention_share=share)
        taken_s = float(prompt_pass(replace(setup, engine=engine), prompts.tokens, prompts.length).total_s[0])
        low, high = (share, high) if taken_s > prompts.model_s else (low, share)
    return high
