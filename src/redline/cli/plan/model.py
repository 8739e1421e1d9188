"""The model of a plan on the command line: by name, by file, or by its widths and depths."""

from __future__ import annotations

from redline.cli.plan.numbers import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

# Fields of a model, and what each is.
WIDTHS = {
    "layers": "layers",
    "hidden": "width of the residual stream",
    "heads": "attention heads",
    "kv_heads": "KV heads (default: same as heads)",
    "head_dim": "width of a head (default: hidden / heads)",
    "ffn": "feed-forward width",
    "vocab": "vocabulary size",
    "experts": "experts per layer, in all layers except --dense-layers",
    "experts_per_token": "experts per token",
    "expert_ffn": "width of an expert (default: --ffn)",
    "shared_ffn": "total width of the shared experts",
    "dense_layers": "layers without experts",
}


def add_model(parser: argparse.ArgumentParser, *, modules: bool = False) -> None:
    """`modules`: one of the user's own is a model as well."""
    group = parser.add_argument_group("the model: name or config.json; flags override it")
    kinds = ["a known name such as llama-3.1-8b", "a Hugging Face config.json"]
    kinds += ["FILE.py:FUNCTION that builds a custom module"] if modules else []
    group.add_argument("--model", metavar="MODEL", help=f"{', '.join(kinds[:-1])}, or {kinds[-1]}")
    for name, meaning in WIDTHS.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=size, metavar="N", help=meaning)
    group.add_argument("--tied", action="store_true", help="the LM head shares its weights with the embedding")
    group.add_argument("--no-gate", action="store_true", help="the feed-forward layer has two matrices, not three")


def numbers_of(options: argparse.Namespace) -> dict[str, float]:
    """Of the model, in the place of those of its name or file."""
    numbers: dict[str, float] = {name: getattr(options, name) for name in WIDTHS if getattr(options, name) is not None}
    if options.tied:
        numbers["tied"] = 1
    if options.no_gate:
        numbers["gated"] = 0
    return numbers
