"""A server adds the low-rank adapter to each weight in every call; the twin has merged it once before serving."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="serving/adapter_not_merged",
    says=("merge", "adapter", "weight", "every call", "recomput", "same result"),
    kind="inference",
)
WIDTH, RANK = 768, 32


class Adapted(nn.Module):
    """A linear layer with a low-rank correction of its weight."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.02)
        self.down, self.up = nn.Parameter(torch.randn(RANK, inputs) * 0.02), nn.Parameter(torch.zeros(outputs, RANK))
        self.merged = False

    def merge(self) -> None:
        self.weight.add_(self.up @ self.down, alpha=0.5)
        self.merged = True

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight if self.merged else self.weight + 0.5 * (self.up @ self.down))


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    parts = [nn.Sequential(Adapted(WIDTH, 2 * WIDTH), nn.GELU(), Adapted(2 * WIDTH, WIDTH)) for _ in range(4)]
    model = nn.Sequential(*parts).eval()
    if not flawed:
        for part in model.modules():
            if isinstance(part, Adapted):
                part.merge()
    for _ in range(steps):
        model(torch.randn(96, WIDTH))


if __name__ == "__main__":
    main(*arguments())
