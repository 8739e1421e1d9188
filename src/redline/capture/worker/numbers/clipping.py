"""Tells when gradients are about to be clipped: afterwards one wrong gradient has changed all others."""

from __future__ import annotations

from functools import wraps

import torch
from torch.nn.utils import clip_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")


def watch_clipping(about_to_clip: Callable[[list[Tensor]], None]) -> None:
    """Call it with the parameters before any of torch's functions clips their gradients."""
    for name in _CLIPPING:
        plain = getattr(clip_grad, name, None)
        if plain is not None:
            watched = _watched(plain, about_to_clip)
            setattr(clip_grad, name, watched)
            setattr(torch.nn.utils, name, watched)


def _watched(plain: Callable[..., Any], about_to_clip: Callable[[list[Tensor]], None]) -> Callable[..., Any]:
    @wraps(plain)
    def watched(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)  # it may be a generator
        if not torch.compiler.is_compiling():
            about_to_clip(listed)
        return plain(listed, *args, **kwargs)

    return watched
