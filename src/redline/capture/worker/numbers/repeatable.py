"""Makes a run repeatable: seeds, random numbers of compiled code, no lower precision; and rounds worse on request."""

from __future__ import annotations

import os
import random
from functools import wraps

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor
    from torch.nn import Module

    from redline.capture.number_check import NumberCheck

_COMPRESSING = ("fp16_compress_hook", "bf16_compress_hook")
_LOW = (torch.bfloat16, torch.float16)
_CASTS = ("to", "type", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
_SHORT_CASTS = ("bfloat16", "half")
_FACTORIES = ("empty", "full", "ones", "rand", "randn", "tensor", "zeros")  # and those ending in `_like`
_LEAST_DIMENSIONS = 2
_MOST_WITH_CHANNELS_LAST = 3  # images and volumes have them after the batch


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
    """True where fp32 is not computed as fp32 now: by autocast, or in matrix products."""
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


# How such errors grow through a model, and through its steps, tells how far two right runs may be apart.
class Perturbation:
    """Rounds worse than the hardware does: each result of a leaf module, and its gradient, is off by up to eps."""

    def __init__(self, check: NumberCheck) -> None:
        self._check = check
        self._number = 0  # of the tensor; the same on every rank, so that copies of a tensor stay copies

    def of_output(self, module: Module, output: Any) -> Any:
        """The output of a leaf module, with every number a little wrong."""
        is_loss = isinstance(module, torch.nn.modules.loss._Loss)
        return self._of_any(output, self._check.sum_eps if is_loss else self._check.eps)

    def of_loss(self) -> float:
        """The factor by which a recorded loss is wrong."""
        exact = torch.ones((), dtype=torch.float64, device="cpu")
        return float(self._wrong(exact, self._check.sum_eps, self._next()))

    def _of_any(self, output: Any, eps: float) -> Any:
        if isinstance(output, torch.Tensor):
            return self._of_tensor(output, eps) if output.is_floating_point() else output
        if type(output) in (tuple, list):
            return type(output)(self._of_any(member, eps) for member in output)
        return output

    def _of_tensor(self, tensor: Tensor, eps: float) -> Tensor:
        if any(placement.is_partial() for placement in getattr(tensor, "placements", ())):
            return tensor  # a summand: what is rounded is the sum
        number, backward_number = self._next(), self._next()
        wrong = self._wrong(tensor, eps, number)
        if wrong.requires_grad and torch.is_grad_enabled():
            wrong.register_hook(lambda gradient: self._wrong_gradient(gradient, eps, backward_number))
        return wrong

    def _wrong_gradient(self, gradient: Tensor, eps: float, number: int) -> Tensor:
        """Also off by the same amount in all of a channel, as sums over many elements are that round on their way."""
        wrong = self._wrong(gradient, eps, number)
        if hasattr(gradient, "device_mesh") or gradient.dim() < _LEAST_DIMENSIONS:
            return wrong
        channel = 1 if gradient.dim() > _MOST_WITH_CHANNELS_LAST else gradient.dim() - 1
        others = [dimension for dimension in range(gradient.dim()) if dimension != channel]
        size = gradient.to(torch.float32).square().mean(others, keepdim=True).sqrt()
        exact = torch.zeros_like(size)
        share = self._wrong(exact + 1, self._check.sum_eps, number) - 1
        # What is 0 stays so: Adam would make a step of it.
        return wrong + torch.where(gradient == 0, exact, share * size).to(gradient.dtype)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _wrong(self, tensor: Any, eps: float, number: int) -> Tensor:
        local = tensor._local_tensor if hasattr(tensor, "device_mesh") else tensor
        generator = torch.Generator(device=local.device)
        generator.manual_seed(self._check.perturbation * 1_000_003 + number)
        uniform = torch.rand(local.shape, generator=generator, device=local.device, dtype=torch.float32)
        factor = 1 + eps * (2 * uniform - 1)
        if local is not tensor:
            factor = _distributed_like(tensor, factor)
        if tensor.dtype.itemsize < factor.dtype.itemsize:  # a factor of lower precision would be 1
            return (tensor.to(torch.float32) * factor).to(tensor.dtype)  # type: ignore[no-any-return]
        return tensor * factor  # type: ignore[no-any-return]


def _distributed_like(tensor: Any, local: Tensor) -> Tensor:
    from torch.distributed.tensor import DTensor, Replicate

    placements = [Replicate() if each.is_partial() else each for each in tensor.placements]
    made: Tensor = DTensor.from_local(
        local, tensor.device_mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )
    return made
