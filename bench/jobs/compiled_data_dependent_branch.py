"""Each layer of a compiled model branches on the largest value of a tensor and breaks the graph; the twin clamps."""

import torch
from torch import Tensor, nn

from bench.common import Label, adamw, arguments

LABEL = Label(
    cause="host/graph_breaks", says=("graph break", "fullgraph", "break the graph", "branch"), style="compiled"
)


class Layer(nn.Module):
    def __init__(self, branch: bool) -> None:
        super().__init__()
        self.up, self.down, self.branch = nn.Linear(128, 256), nn.Linear(256, 128), branch

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(torch.relu(self.up(x))) * 0.1
        if not self.branch:
            return x.clamp(-50.0, 50.0)
        if x.abs().max() > 50.0:
            x = x.clamp(-50.0, 50.0)
        return x


def main(flawed: bool, steps: int) -> None:
    model = nn.Sequential(*(Layer(flawed) for _ in range(40)))
    fast = torch.compile(model, backend="aot_eager")
    optimizer, inputs = adamw(model), torch.randn(48, 128)
    for _ in range(steps):
        loss = fast(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
