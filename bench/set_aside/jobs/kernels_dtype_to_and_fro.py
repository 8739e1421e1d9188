"""Activations are cast to bfloat16 and back around each layer, out of habit; the twin stays in float32."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, update

LABEL = Label(cause="kernels/dtype_conversions", says=("cast", "dtype", "conver", "bfloat16"))
WIDTH = 48


class Layer(nn.Module):
    """A thin layer on long rows."""

    def __init__(self, casting: bool) -> None:
        super().__init__()
        self.norm, self.inner, self.casting = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), casting

    def forward(self, x: Tensor) -> Tensor:
        if not self.casting:
            return x + F.relu(self.inner(self.norm(x)))
        normed = self.norm(x.float()).to(torch.bfloat16)
        grown = F.relu(self.inner(normed.float()).to(torch.bfloat16))
        return x + grown.float()


def main(flawed: bool, steps: int) -> None:
    begin()
    model = nn.Sequential(*(Layer(flawed) for _ in range(6)))
    optimizer = adamw(model)
    inputs, targets = torch.randn(8192, WIDTH), torch.randn(8192, WIDTH)
    for _ in range(steps):
        update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
