"""Losses are logged without detach after backward(retain_graph=True), so all graphs stay; the twin detaches."""

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.common import ConvNet, Label, adamw, arguments

LABEL = Label(cause="memory/graph_kept", says=("detach", "retain_graph", "memory grows"))


def main(flawed: bool, steps: int) -> None:
    model = ConvNet(width=8, blocks=8)
    optimizer, images, classes = adamw(model), torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
    history: list[Tensor] = []
    for _ in range(steps):
        loss = F.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward(retain_graph=flawed)
        optimizer.step()
        history.append(loss if flawed else loss.detach())


if __name__ == "__main__":
    main(*arguments())
