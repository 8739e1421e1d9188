"""Lever `zero-grad-none`: gradients are dropped where the script has them filled with zeros."""

from __future__ import annotations

from functools import wraps

import torch
from torch.optim.optimizer import Optimizer

from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class ZeroGradToNone:
    """`zero_grad` of optimizers and modules, however it is called."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._changed = 0
        self._calls = 0

    def install(self, job: JobView) -> None:
        Optimizer.zero_grad = self._wrapped(Optimizer.zero_grad)  # type: ignore[method-assign]
        torch.nn.Module.zero_grad = self._wrapped(torch.nn.Module.zero_grad)  # type: ignore[method-assign]

    def switch(self, on: bool) -> None:
        self._is_on = on
        if on:
            self._changed = self._calls = 0

    def took(self) -> LeverEffect:
        if self._changed:
            return LeverEffect(True, "zero_grad(set_to_none=False) drops gradients")
        return LeverEffect(False, "gradients are dropped already" if self._calls else "zero_grad was not called")

    def _wrapped(self, plain: Callable[..., None]) -> Any:
        @wraps(plain)
        def zero_grad(owner: Any, set_to_none: bool = True) -> None:
            if self._is_on:
                self._calls += 1
                self._changed += not set_to_none
            plain(owner, set_to_none=set_to_none or self._is_on)

        return zero_grad
