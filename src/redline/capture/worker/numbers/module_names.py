"""The modules of a job: their names, whatever wraps them, and their calls as they come and go."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from torch import Tensor
    from torch.nn import Module, Parameter

_WRAPPERS = {  # classes, and where they keep what they wrap
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
}


def unwrapped(module: Module) -> Module:
    """The module that the script made, without what it was wrapped in."""
    while True:
        inner = module._modules.get(_WRAPPERS.get(type(module).__name__, ""))
        if inner is None:
            return module
        module = inner


def class_name(module: Module) -> str:
    """The name that the script gave it: sharding makes a class FSDPBlock of a Block."""
    kinds = type(module).__mro__
    is_sharded = any(kind.__name__ == "FSDPModule" for kind in kinds)
    return kinds[0].__name__.removeprefix("FSDP") if is_sharded else kinds[0].__name__


def named_modules(root: Module, name: str = "") -> Iterator[tuple[str, Module]]:
    """All modules below with their names, in which wrappers do not show; a wrapper is named as what it wraps."""
    yield name, root
    wrapped = _WRAPPERS.get(type(root).__name__, "")
    for part, module in root._modules.items():
        if module is not None:
            yield from named_modules(module, name if part == wrapped else f"{name}.{part}".removeprefix("."))


class ModuleNames:
    """Names of the modules that the script calls, and of those inside of them.

    The first one with parameters is the model: names inside of it have no prefix. Others begin with their class.
    """

    def __init__(self) -> None:
        self._roots: dict[int, tuple[Module, str]] = {}  # kept alive, so that no other gets their id
        self._names: dict[int, str] = {}
        self._parameters: dict[int, tuple[Parameter, str, int]] = {}

    def add_root(self, module: Module) -> str:
        """The name of a module that the script calls itself."""
        inner = unwrapped(module)
        if id(inner) in self._names:
            return self._names[id(inner)]
        kind = class_name(inner)
        if next(inner.parameters(), None) is None:
            return kind
        label = ""
        if self._roots:
            same = sum(1 for root, _ in self._roots.values() if class_name(root) == kind)
            label = f"{kind}#{same + 1}" if same else kind
        self._roots[id(inner)] = inner, label
        self._learn(inner, label)
        return label

    def _learn(self, root: Module, label: str) -> None:
        for name, module in named_modules(root, label):
            self._names.setdefault(id(module), name)
            for own, parameter in module._parameters.items():
                if parameter is not None:
                    full = f"{name}.{own}".removeprefix(".")
                    self._parameters.setdefault(id(parameter), (parameter, full, id(module)))

    def of_module(self, module: Module, above: str) -> str:
        """The name of a module that one of this name calls."""
        name = self._names.get(id(module))
        if name is None:
            self.refresh()
            name = self._names.get(id(module))
        return f"{above}:{class_name(module)}" if name is None else name

    def refresh(self) -> None:
        """Modules and parameters may have been put in the place of others: they were sharded, or moved."""
        self._names.clear()
        self._parameters.clear()
        for root, label in self._roots.values():
            self._learn(root, label)

    def buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Those of floating point, with their names."""
        for root, label in self._roots.values():
            for name, module in named_modules(root, label):
                for own, buffer in module._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        yield f"{name}.{own}".removeprefix("."), buffer

    def of_parameter(self, parameter: object) -> tuple[str, int] | None:
        """The name of a parameter, and the id of the module that has it."""
        known = self._parameters.get(id(parameter))
        return None if known is None or known[0] is not parameter else known[1:]


@dataclass
class OpenCall:
    """A call that has not returned."""

    module: Module
    name: str
    is_outermost: bool
    is_leaf: bool = True  # as long as it has called no other module
    same_before: int = 0  # calls of this name that had returned when it began


class NamedCalls:
    """Calls of modules as they come and go: which are outermost, which are leaves, and under which name each is known.

    Of the thread that calls; threads of a backward pass have their own.
    """

    def __init__(self, names: ModuleNames) -> None:
        self._names = names
        self._threads = threading.local()
        self._returned: dict[str, int] = {}  # by name, in the outermost call that is open
        self.order: dict[int, int] = {}  # by id of a module, when it was first called

    def begin(self, module: Module) -> OpenCall:
        stack: list[OpenCall] = self._threads.__dict__.setdefault("stack", [])
        is_outermost = not stack and torch._C._current_graph_task_id() == -1
        if is_outermost:
            self._returned.clear()
            name = self._names.add_root(module)
        else:
            if stack:
                stack[-1].is_leaf = False
            name = self._names.of_module(module, stack[-1].name if stack else "")
        self.order.setdefault(id(module), len(self.order))
        call = OpenCall(module, name, is_outermost, same_before=self._returned.get(name, 0))
        stack.append(call)
        return call

    def current(self) -> str | None:
        """The name of the module that is being called; None outside of modules."""
        stack: list[OpenCall] = self._threads.__dict__.get("stack", [])
        return stack[-1].name if stack else None

    def end(self, call: OpenCall) -> None:
        """It has returned, or raised."""
        stack: list[OpenCall] = self._threads.stack
        while stack and stack.pop() is not call:
            pass

    def numbered_name(self, call: OpenCall) -> str | None:
        """With the number of the call, if it is not the first; None for a wrapper of what has told its output."""
        returned = self._returned.get(call.name, 0)
        if returned > call.same_before:
            return None
        self._returned[call.name] = returned + 1
        return call.name if not returned else f"{call.name}#{returned + 1}"


def wrap_calls(
    begin: Callable[[Module, tuple[Any, ...]], OpenCall | None],
    returned: Callable[[OpenCall, Any], Any],
    end: Callable[[OpenCall], None],
) -> None:
    """From now on each call of a module is told, with what it returns, which may be replaced.

    Compiled code has none of this in it: what torch.compile compiles is told as one call from outside.
    """
    plain = torch.nn.Module.__call__

    def called(module: Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return plain(module, *args, **kwargs)
        call = begin(module, args)
        if call is None:
            return plain(module, *args, **kwargs)
        try:
            output = plain(module, *args, **kwargs)
            return returned(call, output)
        finally:
            end(call)

    torch.nn.Module.__call__ = called  # type: ignore[method-assign]
