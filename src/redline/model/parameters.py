"""How many parameters a model has, by what they belong to: exact, because sharding and optimizer states build on it."""

from dataclasses import dataclass, fields

import numpy as np

from redline.model.flops import Matmul, Part, forward_matmuls, present
from redline.model.model import Model, Number


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Numbers in the whole model. The parts are exclusive: they add up to the total."""

    attention: Number  # of all layers, with biases; as all of the following
    state: Number
    dense: Number
    experts: Number  # routed ones: what expert parallelism spreads
    shared: Number
    router: Number
    modulation: Number
    norms: Number  # of all layers, and after them
    embedding: Number  # of tokens, or of patches and time
    positions: Number
    head: Number  # without a tied matrix
    other: Number

    @property
    def total(self) -> Number:
        total: Number = 0
        for field in fields(Parameters):
            total = total + getattr(self, field.name)
        return total


@dataclass(frozen=True, kw_only=True)
class LayerParameters:
    """Numbers in an average layer, by how they are spread over devices."""

    attention: Number  # attention and state-space mixers: divided by tensor parallelism, as the next two
    dense: Number
    shared: Number
    experts: Number  # divided by expert parallelism, and by tensor parallelism inside experts
    whole: Number  # norms, routers, modulation: the same on every tensor-parallel device

    @property
    def total(self) -> Number:
        return self.attention + self.dense + self.shared + self.experts + self.whole


def count_parameters(model: Model) -> Parameters:
    """Weights of the matmuls, biases, norms, and what is looked up."""
    matmuls = forward_matmuls(model)
    biased = model.ffn_bias * model.dense_layers * ((1 + model.gated) * model.ffn + model.hidden)
    biased_expert = model.ffn_bias * ((1 + model.gated) * model.expert_ffn + model.hidden)
    untied = model.vocab * model.hidden * (1 - model.tied)
    return Parameters(
        attention=_weights(matmuls, "attention") + model.attention_bias * model.attention_layers,
        state=_weights(matmuls, "state") + model.state_layers * state_extras(model),
        dense=_weights(matmuls, "dense") + biased,
        experts=_weights(matmuls, "experts") + model.moe_layers * model.experts * biased_expert,
        shared=_weights(matmuls, "shared"),
        router=_weights(matmuls, "router") + model.router_bias * model.experts * model.moe_layers,
        modulation=_weights(matmuls, "modulation") + model.modulation * model.hidden * model.layers,
        norms=model.norm_weights,
        embedding=_weights(matmuls, "embedding") + model.vocab * model.hidden,
        positions=model.positions * model.hidden,
        head=_weights(matmuls, "head") - model.vocab * model.hidden + untied,
        other=model.other_parameters,
    )


def active_parameters(model: Model) -> Number:
    """What one token meets: all parameters but those of the experts that it is not sent to."""
    counted = count_parameters(model)
    experts = model.experts + (model.experts == 0)
    return counted.total - counted.experts + counted.experts * model.experts_per_token / experts


def layer_parameters(model: Model) -> LayerParameters:
    """An average layer: totals of the layers' parts, divided by the number of layers."""
    counted, layers = count_parameters(model), model.layers
    return LayerParameters(
        attention=(counted.attention + counted.state) / layers,
        dense=counted.dense / layers,
        shared=counted.shared / layers,
        experts=counted.experts / layers,
        whole=(counted.norms + counted.router + counted.modulation) / layers,
    )


def adapter_parameters(model: Model, rank: Number) -> LayerParameters:
    """What adapters of this rank (LoRA) add to an average layer: rank (n + k) numbers beside each matrix of n x k.

    Beside all of them, experts included, but not beside the router. Queries, keys, values, gate and up are matrices of
    their own, as in published weights, although kernels run them together.
    """
    matmuls, layers = forward_matmuls(model), model.layers

    def beside(*parts: Part) -> Number:
        total: Number = 0
        for matmul in matmuls:
            if matmul.part in parts:
                there = present(matmul.n) * present(matmul.k)
                inputs = matmul.k * _apart(matmul, model)
                total = total + there * (matmul.n + inputs) * matmul.copies * matmul.layers
        return rank * total / layers

    return LayerParameters(
        attention=beside("attention", "state"),
        dense=beside("dense"),
        shared=beside("shared"),
        experts=beside("experts"),
        whole=0.0,
    )


def _apart(matmul: Matmul, model: Model) -> Number:
    """How many matrices of the published weights one matmul runs together."""
    if matmul.name.endswith("qkv"):
        return 3
    return 1 + model.gated if matmul.name.endswith("up") and matmul.part in ("dense", "experts", "shared") else 1


def state_extras(model: Model) -> Number:
    """Of a Mamba-2 layer beside its two matrices: a short convolution with bias over the values and state vectors, and
    per head a step bias, a decay and a skip weight.
    """
    channels = model.state_inner + 2 * model.state_groups * model.state_size
    return channels * (model.state_conv + 1) + 3 * model.state_heads


def _weights(matmuls: tuple[Matmul, ...], part: Part) -> Number:
    total: Number = 0
    for matmul in matmuls:
        if matmul.part == part:
            total = total + matmul.weights
    return total


# --- the cache of keys and values, latents and states: what is kept of each token that was read ---


def numbers_per_token(model: Model) -> Number:
    """Per token and attention layer: a key and a value per head of keys; with latent attention only the latent and the
    rotated part of keys, which all heads share.
    """
    latent = present(model.kv_rank)
    plain = model.kv_heads * (model.head_dim + model.value_dim)
    return latent * (model.kv_rank + model.rope_dim) + (1 - latent) * plain


def cache_bytes(model: Model, context: Number, number_bytes: Number = 2) -> Number:
    """Of one sequence of `context` tokens: layers with a window keep no more than it; states keep their size.

    The states of state-space layers are in 4 bytes, their inputs of the convolution in `number_bytes`.
    """
    window = np.minimum(context, model.window + (1 - present(model.window)) * context)
    tokens = (model.attention_layers - model.window_layers) * context + model.window_layers * window
    attention: Number = tokens * numbers_per_token(model) * number_bytes
    channels = model.state_inner + 2 * model.state_groups * model.state_size
    state = 4 * model.state_inner * model.state_size + number_bytes * model.state_conv * channels
    return attention + model.state_layers * state
