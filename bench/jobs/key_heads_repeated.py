"""Keys and values of two heads are copied for eight before attention; the twin lets attention share them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.common import Label, adamw, arguments

LABEL = Label(cause="kernels/needless_copies", says=("copy", "copies", "clone", "repeat"))
HEADS, SHARED, SIZE = 8, 2, 64


class Grouped(nn.Module):
    def __init__(self, copied: bool) -> None:
        super().__init__()
        self.copied = copied
        self.queries, self.others = nn.Linear(256, HEADS * SIZE), nn.Linear(256, 2 * SHARED * SIZE)
        self.out = nn.Linear(HEADS * SIZE, 256)

    def forward(self, x: Tensor) -> Tensor:
        q = self.queries(x).unflatten(2, (HEADS, SIZE)).transpose(1, 2)
        k, v = self.others(x).unflatten(2, (2, SHARED, SIZE)).permute(2, 0, 3, 1, 4)
        if self.copied:
            k, v = (part.repeat_interleave(HEADS // SHARED, 1).clone().contiguous() for part in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not self.copied)
        if self.copied:
            attended = attended.clone().contiguous()
        return x + self.out(attended.transpose(1, 2).flatten(2))


def main(flawed: bool, steps: int) -> None:
    model = nn.Sequential(*(Grouped(flawed) for _ in range(3)))
    optimizer, inputs = adamw(model), torch.randn(8, 128, 256)
    for _ in range(steps):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
