"""Lever `clip-foreach`: torch's functions that clip gradients take all tensors at a time."""

from __future__ import annotations

from functools import wraps
from inspect import signature

import torch
from torch.nn.utils import clip_grad
from torch.utils._foreach_utils import _has_foreach_support

from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OF_GRADIENTS = "get_total_norm"  # is given gradients, the others parameters
_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", _OF_GRADIENTS)


class ForeachClipping:
    """Where the script says `foreach=False`; torch's own default is to do so where it can."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._changed = 0
        self._why_not = ""

    def install(self, job: JobView) -> None:
        for name in _CLIPPING:
            plain = getattr(clip_grad, name, None)
            if plain is not None:
                clip = self._wrapped(plain)
                setattr(clip_grad, name, clip)
                setattr(torch.nn.utils, name, clip)

    def switch(self, on: bool) -> None:
        self._is_on = on
        if on:
            self._changed, self._why_not = 0, ""

    def took(self) -> LeverEffect:
        if self._changed:
            return LeverEffect(True, "gradients are clipped all at a time")
        return LeverEffect(False, self._why_not or "no function of torch has clipped gradients")

    def _wrapped(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        known = signature(plain)

        @wraps(plain)
        def clip(*args: Any, **kwargs: Any) -> Any:
            if not self._is_on or torch.compiler.is_compiling():
                return plain(*args, **kwargs)
            try:
                arguments = known.bind(*args, **kwargs).arguments
            except TypeError:  # the script has it wrong, and shall hear it from torch
                return plain(*args, **kwargs)
            first = next(iter(known.parameters))
            given = arguments[first]
            arguments[first] = given if isinstance(given, torch.Tensor) else list(given)
            if self._may_change(plain.__name__, arguments[first], arguments.get("foreach")):
                arguments["foreach"] = True
                self._changed += 1
            return plain(**arguments)

        return clip

    def _may_change(self, name: str, given: torch.Tensor | list[torch.Tensor], foreach: bool | None) -> bool:
        tensors = [given] if isinstance(given, torch.Tensor) else given
        if name != _OF_GRADIENTS:
            tensors = [parameter.grad for parameter in tensors if parameter.grad is not None]
        devices = {tensor.device for tensor in tensors}
        if foreach is not False:
            self._why_not = "the script leaves it to torch, which does so where it can"
        elif not all(_has_foreach_support(_on(tensors, device), device) for device in devices):
            self._why_not = "torch cannot do so for these devices or classes of tensors"
        elif tensors:
            return True
        return False


def _on(tensors: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    return [tensor for tensor in tensors if tensor.device == device]
