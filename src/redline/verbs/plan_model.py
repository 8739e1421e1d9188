"""The model of a plan: a known one, one of a file or of numbers, or a module of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec

from redline.errors import ParameterError, UsageError
from redline.model.describe import changed, describe
from redline.model.known import read_model
from redline.model.model import Model
from redline.planner.train.transformer import Transformer
from redline.planner.train.workload import Workload

NEEDED = ("layers", "hidden", "heads", "vocab")


def find_model(source: str | None, numbers: Mapping[str, float]) -> Model:
    """The model of a known name or a config.json, with these numbers in the place of its own; or of numbers alone."""
    unknown = next((name for name in numbers if name not in {field.name for field in fields(Model)}), None)
    if unknown:
        raise UsageError(f"a model has no number {unknown!r}; it has layers, hidden, heads, vocab, ffn and so on")
    if source is None:
        model = describe(**_whole(numbers))
    else:
        model = changed(read_model(source), **numbers) if numbers else read_model(source)
    _refuse_odd(model, numbers)
    return model


def _whole(numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers that describe a model alone. All layers have experts but those that are said to be dense."""
    needed = (*NEEDED, "experts_per_token") if "experts" in numbers else NEEDED
    missing = [name for name in needed if name not in numbers]
    if missing:
        raise ParameterError(
            "model",
            " is missing: give a known name or a config.json,\n"
            f"or describe the model by numbers; missing: {', '.join(missing)}",
        )
    whole = dict(numbers)
    if "experts" in whole:
        whole["moe_layers"] = whole["layers"] - whole.pop("dense_layers", 0)
        whole.setdefault("expert_ffn", whole.get("ffn", 0))
    return whole


def _refuse_odd(model: Model, numbers: Mapping[str, float]) -> None:
    """Numbers that make no model together."""
    if model.heads % model.kv_heads:
        raise ParameterError("kv_heads", f" {model.kv_heads:g}: that does not divide the {model.heads:g} heads")
    if model.experts_per_token > model.experts:
        raise ParameterError("experts_per_token", f" {model.experts_per_token:g}: there are {model.experts:g} experts")
    if "experts" in numbers and not model.moe_layers:
        raise ParameterError(
            "experts",
            f" changes nothing: no layer of {model.name or 'this model'} has experts;\n"
            f"describe a mixture of experts by numbers alone: {', '.join(NEEDED)} and so on",
        )


def find_workload(source: str | None, numbers: Mapping[str, float]) -> Workload:
    """A model, or the module that FILE.py:FUNCTION builds, counted on shapes alone."""
    if source is None or not is_module(source):
        return Transformer(find_model(source, numbers))
    if numbers:
        raise ParameterError(next(iter(numbers)), f" changes nothing: {source} builds the module itself; leave it out")
    if find_spec("torch") is None:
        raise UsageError(f"{source}: torch is not installed here; install it as your machine needs it (pytorch.org)")
    from redline.planner.train.module_workload import Module
    from redline.probes.count_module import count_module

    return Module(count_module(source))


def is_module(source: str) -> bool:
    """Also where its function is missing, so that this is what is said about it."""
    return source.endswith(".py") or source.rpartition(":")[0].endswith(".py")
