"""A check on values inside each compiled block breaks the graph and ends fusion; the twin clamps without asking."""

import torch
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import arguments, begin

LABEL = Label(
    cause="host/graph_breaks",
    says=("graph break", "graph_break", "fullgraph", "breaks"),
    kind="inference",
    style="compiled",
)
WIDTH, ROWS = 64, 8192


class Gate(nn.Module):
    """A chain of cheap operations."""

    def __init__(self, checking: bool) -> None:
        super().__init__()
        self.scale, self.shift, self.checking = (
            nn.Parameter(torch.ones(WIDTH)),
            nn.Parameter(torch.zeros(WIDTH)),
            checking,
        )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x * self.scale + self.shift) * 0.5 + x * 0.1
        if not self.checking or y.abs().max() > 1e3:
            y = y.clamp(-1e3, 1e3)
        return torch.relu(y - self.shift) * self.scale - y * 0.2 + x


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    blocks = [Gate(flawed) for _ in range(24)]
    for block in blocks:
        block.compile()
    inputs = torch.randn(ROWS, WIDTH)
    for _ in range(steps):
        x = inputs
        for block in blocks:
            x = block(x)


if __name__ == "__main__":
    main(*arguments())
