"""Attention with a bias by distance is written out in products and a softmax; the twin uses the fused one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin, train

LABEL = Label(
    cause="kernels/unfused_attention",
    says=("attention", "scaled_dot_product_attention", "fused", "flash"),
)
WIDTH, HEADS, LENGTH = 256, 8, 640


class Mixing(nn.Module):
    """Attention and an MLP; scores fall with the distance."""

    bias: Tensor

    def __init__(self, flawed: bool) -> None:
        super().__init__()
        self.flawed = flawed
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        places = torch.arange(LENGTH)
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        self.register_buffer("bias", -(places[:, None] - places).abs() * slopes[None, :, None, None])

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not self.flawed:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        return (scores + self.bias).softmax(3) @ v

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norm1(x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Sequential):
    """Two such layers, and classes from their mean."""

    def __init__(self, flawed: bool) -> None:
        super().__init__(Mixing(flawed), Mixing(flawed), nn.Linear(WIDTH, 32))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).mean(1)


def main(flawed: bool, steps: int) -> None:
    begin()
    data = torch.randn(1, LENGTH, WIDTH), torch.randint(32, (1,))
    train(Model(flawed), steps, lambda _: data)


if __name__ == "__main__":
    main(*arguments())
