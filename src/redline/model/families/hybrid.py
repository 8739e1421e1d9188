"""Decoders of which most layers are state-space mixers: Nemotron-H and Nemotron 3."""

from collections import Counter
from dataclasses import replace

from redline.model.families.decoder import decoder
from redline.model.fields import Fields
from redline.model.model import Model

KINDS = {"M": "state", "*": "attention", "-": "dense", "E": "moe"}
"""Letters of `hybrid_override_pattern`."""
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
    """Of every layer, in order."""
    listed = config.items("layers_block_type")
    if listed is not None:
        return [NAMES.get(str(name), "") or _no_kind(config, str(name)) for name in listed]
    pattern = config.text("hybrid_override_pattern", "")
    if not pattern:
        config.count("hybrid_override_pattern")  # says that it is missing
    return [KINDS.get(letter, "") or _no_kind(config, letter) for letter in pattern]


def _no_kind(config: Fields, name: str) -> str:
    raise config.refuse(f"a layer of kind {name!r}")
