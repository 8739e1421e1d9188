"""Diffusion transformers, as diffusers describes them: DiT, Stable Diffusion 3, Wan."""

from dataclasses import replace
from math import prod

from redline.model.fields import Fields
from redline.model.model import Model

TIME_WIDTH = 256
SD3_TOKENS = 333  # 77 of CLIP and 256 of T5
WAN_TOKENS = 512


def dit(config: Fields) -> Model:
    """Patches of latents, conditioned on time and a class. diffusers gives each layer its own embedding of both, so
    that it has more parameters than the original: 749 M in the place of 675 M for DiT-XL/2.
    """
    model = _stack(config, ffn=0)
    h, layers = model.hidden, model.layers
    classes = config.count("num_embeds_ada_norm", default=1000) + 1
    time_biases, last_biases = 2 * h * layers, 2 * h + model.patch_out
    return replace(
        model,
        attention_bias=4 * h if config.flag("attention_bias", default=True) else h,
        time_copies=layers,
        other_parameters=classes * h * layers + h + time_biases + last_biases,
    )


def sd3(config: Fields) -> Model:
    """Tokens of text have matrices of their own and attend together with those of the image."""
    if config.items("dual_attention_layers"):
        raise config.refuse("a second attention in some layers ('dual_attention_layers')")
    model = _stack(config, ffn=0)
    h, layers, heads_normed = model.hidden, model.layers, config.text("qk_norm", "")
    text = config.count("joint_attention_dim", default=4096) * h + h
    pooled = config.count("pooled_projection_dim", default=2048) * h + h + h * h + h
    biases = h + 2 * h + 2 * h + model.patch_out
    further = layers - 1
    condition_biases = layers * 3 * h + further * (h + model.ffn + h) + (further * 6 + 2) * h
    return replace(
        model,
        joint_layers=layers,
        cross_tokens=SD3_TOKENS,
        norm_weights=4 * model.head_dim * layers if heads_normed else 0,
        other_parameters=text + pooled + biases + condition_biases,
    )


def wan(config: Fields) -> Model:
    """Video: attention over all patches, then cross-attention to text. One matrix makes the modulation of all layers,
    which each adds a table to.
    """
    if config.values.get("added_kv_proj_dim") is not None or config.values.get("image_dim") is not None:
        raise config.refuse("a condition of images ('image_dim', 'added_kv_proj_dim')")
    model = _stack(config, ffn=config.count("ffn_dim"))
    h, layers = model.hidden, model.layers
    text = config.count("text_dim", default=4096) * h + h + h * h + h
    tables, cross_norms = 6 * h * layers + 2 * h, 2 * h if config.flag("cross_attn_norm", default=True) else 0
    head_norms = 4 * h if config.text("qk_norm", "rms_norm_across_heads") != "None" else 0
    time = 2 * h + 6 * h * h + 6 * h
    return replace(
        model,
        modulation=0,
        cross_tokens=WAN_TOKENS,
        attention_bias=8 * h,
        time_width=config.count("freq_dim", default=TIME_WIDTH),
        norm_weights=(cross_norms + head_norms) * layers,
        other_parameters=text + tables + time + h + model.patch_out,
    )


def _stack(config: Fields, ffn: int) -> Model:
    """What all share: patches in and out, full attention, biases everywhere, six modulations in a layer."""
    layers, heads = config.count("num_layers"), config.count("num_attention_heads")
    size = config.count("attention_head_dim")
    channels = config.count("in_channels")
    patch = _patch(config)
    h = heads * size
    return Model(
        layers=layers,
        hidden=h,
        heads=heads,
        kv_heads=heads,
        head_dim=size,
        value_dim=size,
        ffn=ffn or 4 * h,
        gated=int("glu" in config.text("activation_fn", "gelu")),
        vocab=0,
        tied=0,
        causal=0,
        attention_layers=layers,
        dense_layers=layers,
        attention_bias=4 * h,
        ffn_bias=1,
        modulation=6,
        patch_in=channels * patch,
        patch_out=config.count("out_channels", default=channels) * patch,
        time_width=TIME_WIDTH,
    )


def _patch(config: Fields) -> int:
    """Positions in a patch: its side squared, or the product of its sides."""
    sides = config.values.get("patch_size")
    if isinstance(sides, list) and all(isinstance(side, int) and side > 0 for side in sides):
        return prod(sides)
    return config.count("patch_size", default=2) ** 2
