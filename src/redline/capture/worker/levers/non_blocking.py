"""Lever `non-blocking`: copies of pinned tensors to a CUDA device do not hold up the host."""

from __future__ import annotations

from functools import wraps

import torch

from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class CopiesAhead:
    """`Tensor.to` and `Tensor.cuda`. From memory that is not pinned a copy waits in any case."""

    def __init__(self, value: str) -> None:
        self._plain: dict[str, Any] = {}
        self._changed = 0
        self._left: dict[str, None] = {}

    def install(self, job: JobView) -> None:
        """The methods are changed only while it is on: they are called often."""

    def switch(self, on: bool) -> None:
        if on and not self._plain:
            self._changed = 0
            self._left.clear()
            for name in ("to", "cuda"):
                self._plain[name] = getattr(torch.Tensor, name)
                setattr(torch.Tensor, name, self._wrapped(self._plain[name]))
        elif not on:
            while self._plain:
                setattr(torch.Tensor, *self._plain.popitem())

    def took(self) -> LeverEffect:
        if self._changed:
            return LeverEffect(True, f"{self._changed} copies do not wait")
        if not torch.cuda.is_available():
            return LeverEffect(False, "there is no CUDA device to copy to")
        return LeverEffect(False, "; ".join(self._left) or "no tensor was copied to a CUDA device")

    def _wrapped(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def copied(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_on_host = tensor.device.type == "cpu" and not torch.compiler.is_compiling()
            if is_on_host and self._may_run_ahead(tensor, plain, args, kwargs):
                self._changed += 1
                kwargs["non_blocking"] = True
            return plain(tensor, *args, **kwargs)

        return copied

    def _may_run_ahead(self, tensor: torch.Tensor, plain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        is_to_device, is_given = _asked(plain.__name__, args, kwargs)
        if not is_to_device:
            return False
        if is_given:
            self._left["the script says non_blocking itself"] = None
            return False
        if not tensor.is_pinned():
            self._left["tensors are not pinned: see lever pin-memory"] = None
            return False
        return True


def _asked(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a call copies to a CUDA device, and whether it says if it waits."""
    is_given = "non_blocking" in kwargs or any(isinstance(value, bool) for value in args)
    if name == "cuda":
        return True, is_given
    places = [*args[:1], *(kwargs[key] for key in ("device", "other") if key in kwargs)]
    return any(_is_cuda(place) for place in places), is_given


def _is_cuda(place: Any) -> bool:
    if isinstance(place, torch.Tensor):
        return place.is_cuda
    if isinstance(place, int) and not isinstance(place, bool):
        return True  # the number of a device
    return isinstance(place, str | torch.device) and torch.device(place).type == "cuda"
