"""Gradients are scaled by the norms of their layers in a loop over parameters; the twin does it for all at once."""

import torch
import torch.nn.functional as F
from torch import nn

from bench.set_aside_2.common import Label, adamw, arguments, begin, residual_mlp

LABEL = Label(
    cause="host/loop_over_parameters",
    says=("loop", "foreach", "each parameter", "optimizer", "small", "item"),
)


def scale_one_by_one(parameters: list[nn.Parameter]) -> None:
    """As in layer-wise adaptive rate scaling."""
    for p in parameters:
        assert p.grad is not None
        weight, gradient = p.norm().item(), p.grad.norm().item()
        ratio = weight / (gradient + 1e-4 * weight + 1e-8)
        p.grad.copy_(p.grad.add(p, alpha=1e-4).mul(min(max(0.02 * ratio, 0.1), 10.0)))


def scale_all(parameters: list[nn.Parameter]) -> None:
    """The same, with few operators."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    weights, norms = torch.stack(torch._foreach_norm(parameters)), torch.stack(torch._foreach_norm(gradients))
    ratios = 0.02 * weights / (norms + 1e-4 * weights + 1e-8)
    torch._foreach_add_(gradients, parameters, alpha=1e-4)
    torch._foreach_mul_(gradients, list(ratios.clamp(0.1, 10.0).unbind()))


def main(flawed: bool, steps: int) -> None:
    begin()
    model = residual_mlp(192, 192, 64, 64)
    parameters = list(model.parameters())
    optimizer = adamw(model)
    inputs, targets = torch.randn(96, 192), torch.randint(64, (96,))
    for _ in range(steps):
        F.cross_entropy(model(inputs), targets).backward()
        with torch.no_grad():
            (scale_one_by_one if flawed else scale_all)(parameters)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
