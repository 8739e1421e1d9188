"""nn.MultiheadAttention is asked for its weights, which nobody reads, and so cannot use the fused kernel; the twin says need_weights=False."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, update

LABEL = Label(cause="kernels/unfused_attention", says=("attention", "scaled_dot_product", "need_weights"))
WIDTH, LENGTH = 64, 512


class Encoder(nn.Module):
    """Three attention layers."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, 4, batch_first=True) for _ in range(3))
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=self.weights)[0]
        return x


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Encoder(flawed)
    optimizer = adamw(model)
    inputs, targets = torch.randn(2, LENGTH, WIDTH), torch.randn(2, LENGTH, WIDTH)
    for _ in range(steps):
        update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
