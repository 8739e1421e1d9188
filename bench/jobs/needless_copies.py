"""Weights and activations are cloned before each use, to be safe; the twin uses them as they are."""

import torch
from torch import nn
from torch.nn import functional as F

from bench.common import Label, arguments

LABEL = Label(cause="kernels/needless_copies", says=("copy", "copies", "clone"))


def main(flawed: bool, steps: int) -> None:
    layers = [nn.Linear(768, 768) for _ in range(12)]
    weights = [weight for layer in layers for weight in layer.parameters()]
    optimizer = torch.optim.SGD(weights, lr=1e-3, fused=True)
    images = torch.randn(96, 768)
    for _ in range(steps):
        x = images
        for layer in layers:
            if flawed:
                weight = layer.weight.clone().to(torch.float32, copy=True)
                x = F.relu(F.linear(x.clone(), weight, layer.bias.clone()).clone())
            else:
                x = F.relu(layer(x))
        loss = x.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
