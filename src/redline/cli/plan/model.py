"""The model of a plan on the command line: by name, by file, or by its widths and depths."""

from __future__ import annotations

from redline.cli.plan.numbers import size
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from redline.model.model import Model
    from redline.planner.train.search.subject import Subject

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
NEEDED = ("layers", "hidden", "heads", "vocab")


def add_model(parser: argparse.ArgumentParser, *, modules: bool = False) -> None:
    """`modules`: one of the user's own is a model as well."""
    group = parser.add_argument_group("the model, by name or file, or by numbers, which win over those of a file")
    kinds = ["a well-known name such as llama-3.1-8b", "a config.json of Hugging Face"]
    kinds += ["FILE.py:FUNCTION that builds a module of your own"] if modules else []
    group.add_argument("--model", metavar="MODEL", help=f"{', '.join(kinds[:-1])}, or {kinds[-1]}")
    for name, meaning in WIDTHS.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=size, metavar="N", help=meaning)
    group.add_argument("--tied", action="store_true", help="the head is the embedding")
    group.add_argument("--no-gate", action="store_true", help="the feed-forward part has two matrices, not three")


def model_of(options: argparse.Namespace) -> Model:
    from redline.verbs.plan import find_model

    given = _given(options)
    if options.model is None:
        _refuse_without(given, options.kind)
    model = find_model(options.model, **given)
    _refuse_odd(model, given, options.kind)
    return model


def subject_of(options: argparse.Namespace) -> Subject:
    """A model, or a module of the user's own."""
    from redline.verbs.plan import find_subject, is_module

    if options.model is None or not is_module(options.model):
        return model_of(options)
    return find_subject(options.model, **_given(options))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {name: getattr(options, name) for name in WIDTHS if getattr(options, name) is not None}
    if options.tied:
        given["tied"] = 1
    if options.no_gate:
        given["gated"] = 0
    if options.model is None and "experts" in given:
        given["moe_layers"] = given.get("layers", 0) - given.pop("dense_layers", 0)
        given.setdefault("expert_ffn", given.get("ffn", 0))
    return given


def _refuse_without(given: dict[str, Any], kind: str) -> None:
    missing = [f"--{name}" for name in NEEDED if name not in given]
    if "experts" in given and "experts_per_token" not in given:
        missing.append("--experts-per-token")
    if missing:
        raise UsageError(
            f"plan {kind}: which model? Give --model NAME or --model config.json,\n"
            f"or describe it by numbers; {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )


def _refuse_odd(model: Model, given: dict[str, Any], kind: str) -> None:
    """Numbers that make no model together."""
    if model.heads % model.kv_heads:
        raise UsageError(
            f"plan {kind}: {model.kv_heads:g} heads of keys and values do not divide {model.heads:g} heads; "
            "change --kv-heads or --heads"
        )
    if model.experts_per_token > model.experts:
        raise UsageError(
            f"plan {kind}: a token cannot be sent to {model.experts_per_token:g} of {model.experts:g} experts; "
            "change --experts-per-token or --experts"
        )
    if "experts" in given and not model.moe_layers:
        raise UsageError(
            f"plan {kind}: no layer of {model.name or 'this model'} has experts, so --experts changes nothing;\n"
            "describe a mixture of experts by --layers, --hidden, --heads, --vocab and so on"
        )
