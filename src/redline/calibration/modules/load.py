"""Runs a user's function that builds a module, on the meta device, and says in a line what is wrong with it."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from redline.errors import InputError, UsageError, first_line

EXPECTED = (
    "It has to return an nn.Module and its inputs: `return module, inputs` (a tensor, a tuple, or a dict of names)."
)


@dataclass(frozen=True)
class Built:
    """A module and what to call it with, all on the meta device."""

    source: str
    module: torch.nn.Module
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def build(source: str) -> Built:
    """From path.py:function."""
    path, _, name = source.rpartition(":")
    if not path or not name:
        raise UsageError(f"{source!r} names no function. Give path.py:function, where the function builds a module.")
    function = _function(Path(path), name)
    try:
        with torch.device("meta"):
            returned = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a user's code raises is told in one line)
        raise InputError(f"{source} raised {_told(error)}. Run it in Python to see where.") from None
    return _checked(source, returned)


def _function(path: Path, name: str) -> Callable[[], Any]:
    if not path.is_file():
        raise InputError(f"{path} is not a file. Give path.py:function, where the function builds a module.")
    loaded = _load(path)
    function = getattr(loaded, name, None)
    if callable(function):
        factory: Callable[[], Any] = function
        return factory
    own = [
        key for key, value in vars(loaded).items() if inspect.isfunction(value) and value.__module__ == loaded.__name__
    ]
    there = f"It has {', '.join(own)}." if own else "It has no functions."
    raise InputError(f"{path} has no function {name!r}. {there}")


def _load(path: Path) -> ModuleType:
    """Its folder is on the path while it loads, so that it may import its neighbours."""
    spec = importlib.util.spec_from_file_location(f"redline_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file. Give path.py:function.")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a user's code raises is told in one line)
        raise InputError(f"{path} cannot be imported: {_told(error)}. Run it in Python to see where.") from None
    finally:
        sys.path.remove(folder)
    return module


def _checked(source: str, returned: object) -> Built:
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], torch.nn.Module):
        kind = (
            "an nn.Module without inputs" if isinstance(returned, torch.nn.Module) else f"a {type(returned).__name__}"
        )
        raise InputError(f"{source} returned {kind}.\n{EXPECTED}")
    module, inputs = returned
    inputs = torch.utils._pytree.tree_map(_on_meta, inputs)
    module = module.to("meta")
    if isinstance(inputs, dict):
        return Built(source, module, (), inputs)
    return Built(source, module, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {})


def _on_meta(value: object) -> object:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
