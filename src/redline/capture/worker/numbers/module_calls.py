"""Calls of modules as they come and go: which are outermost, which are leaves, and under which name each is known."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from redline.capture.worker.numbers.module_names import ModuleNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch.nn import Module


@dataclass
class OpenCall:
    """A call that has not returned."""

    module: Module
    name: str
    is_outermost: bool
    is_leaf: bool = True  # as long as it has called no other module
    same_before: int = 0  # calls of this name that had returned when it began


class NamedCalls:
    """Of the thread that calls; threads of a backward pass have their own."""

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
