"""Gradient descent for programs that are about something else than their optimizer.

torch's own optimizers and DistributedDataParallel load its compiler, which takes longer than such a program does.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class Descent(torch.optim.Optimizer):
    """Does what torch.optim.SGD does, and has no state."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.param_groups.append({**self.defaults, **param_group, "params": list(param_group["params"])})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-group["lr"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def average_gradients(model: nn.Module) -> None:
    """Of all ranks, which wait for each other here."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
