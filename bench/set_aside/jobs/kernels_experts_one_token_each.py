"""A mixture of experts calls its experts row by row; the twin sorts rows by expert and calls each expert once."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, update

LABEL = Label(
    cause="kernels/loop_over_samples", says=("batch", "row by row", "small", "loop", "grouped", "tiny", "one by one")
)
EXPERTS, WIDTH, ROWS = 8, 256, 256


class Mixture(nn.Module):
    """Top-1 routing over small experts."""

    def __init__(self, by_rows: bool) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )
        self.by_rows = by_rows

    def forward(self, x: Tensor) -> Tensor:
        gate, chosen = self.router(x).softmax(-1).max(-1)
        if self.by_rows:
            rows = [self.experts[number](row) for row, number in zip(x, chosen.tolist(), strict=True)]
            return torch.stack(rows) * gate[:, None]
        order = chosen.argsort()
        parts = x[order].split(torch.bincount(chosen, minlength=EXPERTS).tolist())
        mixed = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        return torch.empty_like(mixed).index_copy(0, order, mixed) * gate[:, None]


def main(flawed: bool, steps: int) -> None:
    begin()
    model = nn.Sequential(Mixture(flawed), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
    optimizer = adamw(model)
    inputs, targets = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    for _ in range(steps):
        update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
