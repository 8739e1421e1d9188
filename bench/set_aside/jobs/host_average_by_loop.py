"""An exponential average of the weights goes parameter by parameter with new tensors; the twin uses torch._foreach_lerp_."""

import torch
import torch.nn.functional as F
from torch import nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, update

LABEL = Label(
    cause="host/loop_over_parameters", says=("foreach", "average", "EMA", "per parameter", "loop", "small operators")
)


def main(flawed: bool, steps: int) -> None:
    begin()
    model = nn.Sequential(*(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh()) for _ in range(100)))
    optimizer = adamw(model)
    weights = [p.detach() for p in model.parameters()]
    averages = [weight.clone() for weight in weights]
    inputs, targets = torch.randn(96, 64), torch.randn(96, 64)
    for _ in range(steps):
        update(optimizer, F.mse_loss(model(inputs), targets))
        if flawed:
            for average, weight in zip(averages, weights, strict=True):
                average.copy_(average * torch.tensor(0.999) + weight.clone() * torch.tensor(1 - 0.999))
        else:
            torch._foreach_lerp_(averages, weights, 1 - 0.999)


if __name__ == "__main__":
    main(*arguments())
