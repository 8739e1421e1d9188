"""Rounds worse than the hardware does: every result of a leaf module, and its gradient, is off by up to eps of it.

How such errors grow through a model, and through its steps, tells how far two right runs may be apart.
"""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor
    from torch.nn import Module

    from redline.capture.number_check import NumberCheck

_LEAST_DIMENSIONS = 2
_MOST_WITH_CHANNELS_LAST = 3  # images and volumes have them after the batch


class Perturbation:
    """Of one run."""

    def __init__(self, check: NumberCheck) -> None:
        self._check = check
        self._number = 0  # of the tensor; the same on every rank, so that copies of a tensor stay copies

    def of_output(self, module: Module, output: Any) -> Any:
        """What a leaf module returned, with every number a little wrong."""
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
