"""Mixtures of experts: Mixtral, Qwen, DeepSeek with latent attention, gpt-oss, Llama 4, GLM, MiniMax."""

from dataclasses import replace
from typing import Any

from redline.model.families.decoder import biases, decoder, late_windows, per_head, qwen3, replace_values, windows
from redline.model.fields import Fields
from redline.model.model import Model


def mixtral(config: Fields) -> Model:
    """Mistral with experts in every layer."""
    model = decoder(config)
    experts = config.count("num_local_experts", default=8)
    chosen = config.count("num_experts_per_tok", default=2)
    window = config.count("sliding_window", default=0)
    windowed = windows(config, window, [True] * config.count("num_hidden_layers"))
    return replace(_all_experts(model, experts, chosen), **windowed)


def minimax_m2(config: Fields) -> Model:
    """Experts in every layer; norms of all queries and all keys."""
    model = _all_experts(decoder(config), config.count("num_local_experts"), config.count("num_experts_per_tok"))
    normed = (model.heads + model.kv_heads) * model.head_dim * model.layers
    return replace(model, norm_weights=model.norm_weights + normed)


def gpt_oss(config: Fields) -> Model:
    """Experts with biases in every layer; a number per head that takes part in its softmax; windows in every other."""
    experts = config.count("num_local_experts", "num_experts")
    chosen = config.count("num_experts_per_tok", "experts_per_token", default=4)
    model = _all_experts(decoder(config, head_dim=64), experts, chosen)
    biased = biases(model, output=True) if config.flag("attention_bias", default=True) else 0
    windowed = [layer % 2 == 0 for layer in range(config.count("num_hidden_layers"))]
    window = config.count("sliding_window", default=128)
    model = replace(model, attention_bias=biased + model.heads, ffn_bias=1, router_bias=1)
    return replace(model, **windows(config, window, windowed))


def qwen2_moe(config: Fields) -> Model:
    """Qwen 2 with experts, one shared expert and its gate."""
    model = decoder(config)
    biased = biases(model, output=False) if config.flag("qkv_bias", default=True) else 0
    shared = config.count("shared_expert_intermediate_size")
    model = replace(_some_experts(config, model), attention_bias=biased, shared_ffn=shared, shared_gate=1)
    return replace(model, **late_windows(config))


def qwen3_moe(config: Fields) -> Model:
    """Qwen 3 with experts and no shared one."""
    usual = per_head(config, config.count("hidden_size"), config.count("num_attention_heads"))
    sized = replace_values(config, head_dim=config.count("head_dim", default=usual))
    return _some_experts(config, qwen3(sized))


def llama4(config: Fields) -> Model:
    """One routed and one shared expert in every n-th layer; attention in chunks, but for every fourth layer.

    A chunk is counted as a window of its size: an upper bound, because tokens early in a chunk see less.
    """
    model = decoder(
        replace(config, values=config.values | {"intermediate_size": config.count("intermediate_size_mlp")})
    )
    layers, wide = config.count("num_hidden_layers"), config.count("intermediate_size")
    listed, step = config.items("moe_layers"), config.count("interleave_moe_layer_step", default=1)
    moe = len(range(step - 1, layers, step)) if listed is None else len(listed)
    chunked = [(layer + 1) % config.count("no_rope_layer_interval", default=4) != 0 for layer in range(layers)]
    bias = biases(model, output=True) if config.flag("attention_bias", default=False) else 0
    return replace(
        model,
        dense_layers=layers - moe,
        moe_layers=moe,
        experts=config.count("num_local_experts"),
        experts_per_token=config.count("num_experts_per_tok", default=1),
        expert_ffn=wide,
        shared_ffn=wide,
        attention_bias=bias,
        **windows(config, config.count("attention_chunk_size", default=8192), chunked),
    )


def ernie4_5_moe(config: Fields) -> Model:
    """Experts from some layer on, in every n-th; shared ones beside them; a bias of the router."""
    model = decoder(config, tied=True)
    layers = config.count("num_hidden_layers")
    first = config.count("moe_layer_start_index", default=1, least=0)
    last = config.count("moe_layer_end_index", default=layers - 1, least=-1)
    every = config.count("moe_layer_interval", default=1)
    last = layers - 1 if last == -1 else last
    moe = sum((layer + 1) % every == 0 and first <= layer <= last for layer in range(layers))
    wide = config.count("moe_intermediate_size")
    if config.flag("use_bias", default=False):
        raise config.refuse("biases in every matrix ('use_bias')")
    return replace(
        model,
        dense_layers=layers - moe,
        moe_layers=moe,
        experts=config.count("moe_num_experts"),
        experts_per_token=config.count("moe_k"),
        expert_ffn=wide,
        shared_ffn=wide * config.count("moe_num_shared_experts", default=0, least=0),
        router_bias=1,
    )


def glm4_moe(config: Fields) -> Model:
    """DeepSeek's experts with grouped queries."""
    model = decoder(config)
    bias = biases(model, output=False) if config.flag("attention_bias", default=False) else 0
    normed = 2 * model.head_dim * model.layers if config.flag("use_qk_norm", default=False) else 0
    model = replace(model, attention_bias=bias, norm_weights=model.norm_weights + normed)
    return replace(model, **_after_dense(config, dense_first=1))


def deepseek(config: Fields) -> Model:
    """Latent attention; experts, with shared ones, after the first layers. Layers that predict further tokens
    (`num_nextn_predict_layers`) are not part of the model that transformers builds, and are left out here too.
    """
    nope, rope = config.count("qk_nope_head_dim", default=128), config.count("qk_rope_head_dim", default=64)
    model = decoder(config, head_dim=nope + rope)
    h, layers = model.hidden, model.layers
    q_rank, kv_rank = _q_rank(config), config.count("kv_lora_rank", default=512)
    biased = config.flag("attention_bias", default=False)
    model = replace(
        model,
        head_dim=nope + rope,
        value_dim=config.count("v_head_dim", default=128),
        kv_heads=model.heads,
        q_rank=q_rank,
        kv_rank=kv_rank,
        rope_dim=rope,
        attention_bias=q_rank + kv_rank + rope + h if biased else 0,
        norm_weights=model.norm_weights + (q_rank + kv_rank) * layers,
    )
    return replace(model, **_after_dense(config, dense_first=0))


def _q_rank(config: Fields) -> int:
    """null says that queries are made directly; nothing at all says 1536, as transformers does."""
    if "q_lora_rank" in config.values and config.values["q_lora_rank"] is None:
        return 0
    return config.count("q_lora_rank", default=1536)


def _after_dense(config: Fields, *, dense_first: int) -> dict[str, Any]:
    layers, wide = config.count("num_hidden_layers"), config.count("moe_intermediate_size")
    dense = min(layers, config.count("first_k_dense_replace", default=dense_first, least=0))
    return {
        "dense_layers": dense,
        "moe_layers": layers - dense,
        "experts": config.count("n_routed_experts"),
        "experts_per_token": config.count("num_experts_per_tok"),
        "expert_ffn": wide,
        "shared_ffn": wide * config.count("n_shared_experts", default=0, least=0),
    }


def _all_experts(model: Model, experts: int, chosen: int) -> Model:
    """Experts in every layer, as wide as the file's intermediate size."""
    return replace(
        model,
        dense_layers=0,
        moe_layers=model.layers,
        experts=experts,
        experts_per_token=chosen,
        expert_ffn=model.ffn,
        ffn=0,
    )


def _some_experts(config: Fields, model: Model) -> Model:
    """Experts in every `decoder_sparse_step`-th layer that `mlp_only_layers` does not list."""
    layers, step = config.count("num_hidden_layers"), config.count("decoder_sparse_step", default=1)
    dense = set(config.items("mlp_only_layers") or [])
    moe = sum(layer not in dense and (layer + 1) % step == 0 for layer in range(layers))
    return replace(
        model,
        dense_layers=layers - moe,
        moe_layers=moe,
        experts=config.count("num_experts"),
        experts_per_token=config.count("num_experts_per_tok"),
        expert_ffn=config.count("moe_intermediate_size"),
    )
