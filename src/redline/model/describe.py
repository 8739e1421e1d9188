"""A model from the few numbers that papers and tables of runs give; everything else follows by what is usual."""

from dataclasses import replace
from typing import Any

from redline.model.model import Model, Number


def describe(*, layers: Number, hidden: Number, heads: Number, vocab: Number, gated: Number = 1, **given: Any) -> Model:
    """A decoder. Further fields of `Model` may be given, as numbers or columns; what is not given follows:

    heads of hidden / heads numbers, as many for keys as for queries; a feed-forward part of 4 x hidden, or 8/3 x hidden
    where it is gated; attention in all layers that have no state-space mixer; feed-forward parts in all layers, dense
    where they are not a mixture of experts; two norms of one number per hidden unit in a layer, and one at the end;
    learned biases nowhere.
    """
    head_dim = given.get("head_dim", hidden / heads)
    attending = layers - given.get("state_layers", 0)
    usual = {
        "kv_heads": heads,
        "head_dim": head_dim,
        "value_dim": head_dim,
        "ffn": hidden * (4 - gated * 4 / 3),
        "tied": 0,
        "attention_layers": attending,
        "dense_layers": layers - given.get("moe_layers", 0),
        "norm_weights": (2 * layers + 1) * hidden,
    }
    fields = usual | given
    return Model(layers=layers, hidden=hidden, heads=heads, vocab=vocab, gated=gated, **fields)


# What grows with the number of layers.
_COUNTED = ("attention_layers", "dense_layers", "moe_layers", "state_layers", "window_layers", "joint_layers")


def changed(model: Model, **given: Any) -> Model:
    """The model with other numbers in some fields. Other layers are of the same kinds, in the same proportion."""
    share = given.get("layers", model.layers) / model.layers
    scaled = {name: round(getattr(model, name) * share) for name in _COUNTED}
    norms = round(model.norm_weights * share * given.get("hidden", model.hidden) / model.hidden)
    if "head_dim" in given and model.value_dim == model.head_dim:
        given.setdefault("value_dim", given["head_dim"])
    return replace(model, **{**scaled, "norm_weights": norms, **given})
