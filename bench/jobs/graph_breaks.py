"""Each layer of a compiled model reads a statistic with .item() and logs it; the twin does not."""

import logging

import torch
from torch import Tensor, nn

from bench.common import Label, adamw, arguments

LABEL = Label(cause="host/graph_breaks", says=("graph break", "fullgraph", "break the graph"), style="compiled")
LOG = logging.getLogger("model")


class Layer(nn.Module):
    def __init__(self, watch: bool) -> None:
        super().__init__()
        self.linear, self.watch = nn.Linear(192, 192), watch

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.linear(x)) * 0.5 + x
        if self.watch:
            LOG.debug("mean %s", x.abs().mean().item())
        return x


def main(flawed: bool, steps: int) -> None:
    model = nn.Sequential(*(Layer(flawed) for _ in range(24)))
    fast = torch.compile(model, backend="aot_eager")
    optimizer, inputs = adamw(model), torch.randn(192, 192)
    for _ in range(steps):
        loss = fast(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
