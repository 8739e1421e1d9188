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
    "kv_heads": "heads of keys and values (default: as many as heads)",
    "head_dim": "width of a head (default: hidden / heads)",
    "ffn": "width of the feed-forward part",
    "vocab": "tokens of the vocabulary",
    "experts": "experts of a layer; then all layers have experts, but those of --dense-layers",
    "experts_per_token": "experts that a token is sent to",
    "expert_ffn": "width of an expert (default: that of --ffn)",
    "shared_ffn": "width of the experts that every token meets, together",
    "dense_layers": "layers without experts",
}


def add_model(parser: argparse.ArgumentParser, *, modules: bool = False) -> None:
    """`modules`: one of the user's own is a model as well."""
    group = parser.add_argument_group("the model: a name or config.json; numbers override it")
    kinds = ["a well-known name such as llama-3.1-8b", "a config.json of Hugging Face"]
    kinds += ["FILE.py:FUNCTION that builds a module of your own"] if modules else []
    group.add_argument("--model", metavar="MODEL", help=f"{', '.join(kinds[:-1])}, or {kinds[-1]}")
    for name, meaning in WIDTHS.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=size, metavar="N", help=meaning)
    group.add_argument("--tied", action="store_true", help="the head is the embedding")
    group.add_argument("--no-gate", action="store_true", help="the feed-forward part has two matrices, not three")


def numbers_of(options: argparse.Namespace) -> dict[str, float]:
    """Of the model, in the place of those of its name or file."""
    numbers: dict[str, float] = {name: getattr(options, name) for name in WIDTHS if getattr(options, name) is not None}
    if options.tied:
        numbers["tied"] = 1
    if options.no_gate:
        numbers["gated"] = 0
    return numbers
