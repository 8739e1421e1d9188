"""Makes a run repeatable: seeds, random numbers of compiled code, and on request no lower precision."""

from __future__ import annotations

import os
import random
from functools import wraps

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch.nn import Module

_COMPRESSING = ("fp16_compress_hook", "bf16_compress_hook")
_LOW = (torch.bfloat16, torch.float16)
_CASTS = ("to", "type", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
_SHORT_CASTS = ("bfloat16", "half")
_FACTORIES = ("empty", "full", "ones", "rand", "randn", "tensor", "zeros")  # and those ending in `_like`


def seed_everything(seed: int) -> None:
    """The generators that scripts use without one of their own."""
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(seed)  # noqa: NPY002 (it is the generator of the script)


def use_random_numbers_of_eager(module: Module) -> None:
    """Compiled code draws other random numbers than the same code that is not compiled, unless it is told to."""
    is_compiled = type(module).__name__ == "OptimizedModule" or module.__dict__.get("_compiled_call_impl") is not None
    if is_compiled:
        import torch._inductor.config

        torch._inductor.config.fallback_random = True


def is_precision_lowered() -> bool:
    """Whether fp32 is not computed as fp32 now: by autocast, or in matrix products."""
    is_autocast_on = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    return is_autocast_on or torch.get_float32_matmul_precision() != "highest"


class FullPrecision:
    """Computes in fp32 what the script would compute in lower precision.

    What stays in lower precision all the same, as in compiled code, tells so by its dtype; then nothing is claimed.
    """

    def __init__(self) -> None:
        self._set_matmul_precision = torch.set_float32_matmul_precision
        plain = torch.amp.autocast_mode.autocast.__init__

        def init(
            autocast: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
        ) -> None:
            plain(autocast, device_type, dtype, False, cache_enabled)

        torch.amp.autocast_mode.autocast.__init__ = init  # type: ignore[method-assign, assignment]
        _make_in_full_precision()
        if "RANK" in os.environ and torch.distributed.is_available():
            _reduce_in_full_precision()

    def keep(self) -> None:
        """Before each step: a script may have asked for TF32 meanwhile."""
        if torch.get_float32_matmul_precision() != "highest":
            self._set_matmul_precision("highest")


def _make_in_full_precision() -> None:
    """Tensors that the script asks for in lower precision."""
    like = [name for each in _FACTORIES if hasattr(torch, name := f"{each}_like")]
    for owner, names in ((torch.Tensor, _CASTS), (torch, (*_FACTORIES, *like, "as_tensor", "set_default_dtype"))):
        for name in names:
            setattr(owner, name, _with_full_dtype(getattr(owner, name)))
    for name in _SHORT_CASTS:
        setattr(torch.Tensor, name, lambda tensor, *args, **kwargs: tensor.float(*args, **kwargs))


def _with_full_dtype(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def made(*args: Any, **kwargs: Any) -> Any:
        named = {name: _in_full(value) for name, value in kwargs.items()}
        return plain(*map(_in_full, args), **named)

    return made


def _in_full(value: Any) -> Any:
    return torch.float32 if isinstance(value, torch.dtype) and value in _LOW else value


def _reduce_in_full_precision() -> None:
    """Gradients are sent, and shards gathered, as they are."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.nn.parallel import DistributedDataParallel

    plain_policy = MixedPrecisionPolicy.__init__

    def policy(own: Any, param_dtype: Any = None, reduce_dtype: Any = None, *others: Any, **named: Any) -> None:
        named.pop("output_dtype", None)
        plain_policy(own, None, None, None, *others[1:], **named)

    MixedPrecisionPolicy.__init__ = policy  # type: ignore[method-assign, assignment]
    plain_register = DistributedDataParallel.register_comm_hook

    def register(model: Any, state: Any, hook: Callable[..., Any]) -> None:
        if getattr(hook, "__name__", "") in _COMPRESSING:
            plain_register(model, None, default_hooks.allreduce_hook)
        else:
            plain_register(model, state, hook)

    DistributedDataParallel.register_comm_hook = register  # type: ignore[method-assign, assignment]
