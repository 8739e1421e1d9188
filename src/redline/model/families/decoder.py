"""Dense models of text: GPT-2, GPT-NeoX, Llama and what is built like it; BERT; decoders with state-space mixers."""

from collections import Counter
from dataclasses import replace
from typing import Any

from redline.model.fields import Fields
from redline.model.model import Model, Number


def gpt2(config: Fields) -> Model:
    """Learned positions, biases everywhere, norms with weight and bias, a head that is the embedding."""
    h, layers, heads = config.count("n_embd"), config.count("n_layer"), config.count("n_head")
    return Model(
        layers=layers,
        hidden=h,
        heads=heads,
        kv_heads=heads,
        head_dim=per_head(config, h, heads),
        value_dim=per_head(config, h, heads),
        ffn=config.count("n_inner", default=4 * h),
        gated=0,
        vocab=config.count("vocab_size"),
        tied=int(config.flag("tie_word_embeddings", default=True)),
        attention_layers=layers,
        dense_layers=layers,
        positions=config.count("n_positions", "n_ctx", default=1024),
        attention_bias=4 * h,
        ffn_bias=1,
        norm_weights=2 * (2 * layers + 1) * h,
    )


def gpt_neox(config: Fields) -> Model:
    """GPT-2 with rotated positions; attention and feed-forward part read the same input."""
    model = decoder(replace_values(config, num_key_value_heads=None))
    biased = 4 * model.hidden if config.flag("attention_bias", default=True) else 0
    return replace(model, gated=0, ffn_bias=1, attention_bias=biased, norm_weights=2 * model.norm_weights)


def llama(config: Fields) -> Model:
    """The plan of most decoders of today: RMSNorm, rotated positions, grouped queries, a gated feed-forward part."""
    model = decoder(config)
    return replace(
        model,
        attention_bias=biases(model, output=True) if config.flag("attention_bias", default=False) else 0,
        ffn_bias=int(config.flag("mlp_bias", default=False)),
    )


def mistral(config: Fields) -> Model:
    """Llama with a window in every layer, unless that is null."""
    window = config.count("sliding_window", default=0)
    return replace(decoder(config), **windows(config, window, [True] * config.count("num_hidden_layers")))


def qwen2(config: Fields) -> Model:
    """Llama with biases of queries, keys and values; windows in later layers where they are asked for."""
    model = decoder(config)
    return replace(model, attention_bias=biases(model, output=False), **late_windows(config))


def qwen3(config: Fields) -> Model:
    """Llama with norms of each head's queries and keys."""
    model = llama(replace_values(config, mlp_bias=False, head_dim=config.count("head_dim", default=128)))
    normed = 2 * model.head_dim * model.layers
    return replace(model, norm_weights=model.norm_weights + normed, **late_windows(config))


def olmo2(config: Fields) -> Model:
    """Llama with norms after its parts, and norms of all queries and all keys."""
    model = llama(replace_values(config, mlp_bias=False))
    normed = (model.heads + model.kv_heads) * model.head_dim * model.layers
    return replace(model, norm_weights=model.norm_weights + normed)


def gemma(config: Fields) -> Model:
    """Llama with wide heads and a head that is the embedding."""
    model = decoder(config, tied=True, head_dim=256)
    bias = biases(model, output=True) if config.flag("attention_bias", default=False) else 0
    return replace(model, attention_bias=bias)


def gemma2(config: Fields) -> Model:
    """Gemma with norms before and after its parts, and a window in every other layer."""
    model = gemma(config)
    h, layers = model.hidden, config.count("num_hidden_layers")
    windowed = [layer % 2 == 0 for layer in range(layers)]
    window = config.count("sliding_window", default=4096)
    return replace(model, norm_weights=(4 * layers + 1) * h, **windows(config, window, windowed))


GEMMA3_DEFAULTS = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208}
"""Published files of Gemma 3 leave out what transformers has as a default."""


def gemma3(config: Fields) -> Model:
    """Gemma 2 with norms of queries and keys, and windows in five of six layers."""
    given = {name: value for name, value in config.values.items() if value is not None}
    config = replace(config, values=GEMMA3_DEFAULTS | given)
    model = gemma2(config)
    layers = config.count("num_hidden_layers")
    pattern = config.count("sliding_window_pattern", default=6)
    windowed = [(layer + 1) % pattern != 0 for layer in range(layers)]
    window = config.count("sliding_window", default=4096)
    normed = model.norm_weights + 2 * model.head_dim * layers
    return replace(model, norm_weights=normed, **windows(config, window, windowed))


def decoder(config: Fields, *, tied: bool = False, head_dim: int | None = None) -> Model:
    """What all of these share: fields that nearly every config.json has, two norms in a layer and one at the end."""
    h, layers, heads = (
        config.count("hidden_size"),
        config.count("num_hidden_layers"),
        config.count("num_attention_heads"),
    )
    size = config.count("head_dim", default=head_dim or per_head(config, h, heads))
    return Model(
        layers=layers,
        hidden=h,
        heads=heads,
        kv_heads=config.count("num_key_value_heads", default=heads),
        head_dim=size,
        value_dim=size,
        ffn=config.count("intermediate_size"),
        gated=1,
        vocab=config.count("vocab_size"),
        tied=int(config.flag("tie_word_embeddings", default=tied)),
        attention_layers=layers,
        dense_layers=layers,
        norm_weights=(2 * layers + 1) * h,
    )


def biases(model: Model, *, output: bool) -> Number:
    """Biases of queries, keys and values in one layer, and of the output projection."""
    qkv = model.heads * model.head_dim + model.kv_heads * (model.head_dim + model.value_dim)
    return qkv + (model.hidden if output else 0)


def windows(config: Fields, window: int, usual: list[bool]) -> dict[str, Any]:
    """The window and how many layers have it: as `layer_types` lists them, or as is usual in the family."""
    kinds = config.items("layer_types")
    count = sum(usual) if kinds is None else sum(kind != "full_attention" for kind in kinds)
    return {"window": window, "window_layers": count} if window else {}


def late_windows(config: Fields) -> dict[str, Any]:
    """Qwen: windows only where `use_sliding_window` says so, from layer `max_window_layers` on."""
    if not config.flag("use_sliding_window", default=False):
        return {}
    first = config.count("max_window_layers", default=28, least=0)
    windowed = [layer >= first for layer in range(config.count("num_hidden_layers"))]
    return windows(config, config.count("sliding_window", default=4096), windowed)


def per_head(config: Fields, hidden: int, heads: int) -> int:
    """Numbers per head where the file does not say: the hidden width, divided."""
    if hidden % heads and config.values.get("head_dim") is None:
        raise config.unequal(hidden, heads)
    return hidden // heads


def replace_values(config: Fields, **values: Any) -> Fields:
    """The same file with some fields set: families that ignore a field."""
    return replace(config, values=config.values | values)


def bert(config: Fields) -> Model:
    """Sees both directions; learned positions and kinds of tokens, biases everywhere, a norm after the embedding and
    after each part. Its head: a square matrix with bias, a norm, the embedding transposed, a bias per token.
    """
    model = decoder(replace_values(config, num_key_value_heads=None), tied=True)
    h, layers, vocab = model.hidden, model.layers, model.vocab
    kinds = config.count("type_vocab_size", default=2) * h
    return replace(
        model,
        causal=0,
        gated=0,
        positions=config.count("max_position_embeddings", default=512),
        attention_bias=4 * h,
        ffn_bias=1,
        norm_weights=2 * (2 * layers + 2) * h,
        head_dense=1,
        other_parameters=kinds + h + vocab,
    )


KINDS = {"M": "state", "*": "attention", "-": "dense", "E": "moe"}  # letters of `hybrid_override_pattern`
NAMES = {
    "mamba": "state",
    "linear_attention": "state",
    "attention": "attention",
    "full_attention": "attention",
    "mlp": "dense",
    "moe": "moe",
}
"""Names in `layers_block_type`."""


def nemotron_h(config: Fields) -> Model:
    """Each layer is one part with one norm: Mamba-2 (with a norm of its inner width), attention, a plain feed-forward
    part, or experts with a shared one.
    """
    if config.values.get("moe_latent_size") is not None:
        raise config.refuse("experts of a latent width ('moe_latent_size')")
    kinds = _kinds(config)
    layers, counted = len(kinds), Counter(kinds)
    inner = config.count("mamba_num_heads") * config.count("mamba_head_dim")
    filled = config.values | {"num_hidden_layers": layers}
    filled.setdefault("intermediate_size", 1)
    model = decoder(replace(config, values=filled), head_dim=128)
    model = replace(
        model,
        gated=0,
        ffn=model.ffn if counted["dense"] else 0,
        attention_layers=counted["attention"],
        dense_layers=counted["dense"],
        state_layers=counted["state"],
        state_inner=inner,
        state_size=config.count("ssm_state_size"),
        state_groups=config.count("n_groups"),
        state_heads=config.count("mamba_num_heads"),
        state_conv=config.count("conv_kernel", default=4),
        norm_weights=(layers + 1) * model.hidden + counted["state"] * inner,
    )
    return _with_experts(config, model, counted["moe"]) if counted["moe"] else model


def _with_experts(config: Fields, model: Model, layers: int) -> Model:
    return replace(
        model,
        moe_layers=layers,
        experts=config.count("n_routed_experts"),
        experts_per_token=config.count("num_experts_per_tok"),
        expert_ffn=config.count("moe_intermediate_size"),
        shared_ffn=config.count("moe_shared_expert_intermediate_size"),
    )


def _kinds(config: Fields) -> list[str]:
    """The kind of every layer, in order."""
    listed = config.items("layers_block_type")
    if listed is not None:
        return [NAMES.get(str(name), "") or _no_kind(config, str(name)) for name in listed]
    pattern = config.text("hybrid_override_pattern", "")
    if not pattern:
        config.count("hybrid_override_pattern")  # says that it is missing
    return [KINDS.get(letter, "") or _no_kind(config, letter) for letter in pattern]


def _no_kind(config: Fields, name: str) -> str:
    raise config.refuse(f"a layer of kind {name!r}")
