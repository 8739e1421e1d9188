"""A small convolutional network for `redline plan train --model examples/plan/network.py:build`. Nothing is trained."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inside)))


def build() -> tuple[nn.Module, torch.Tensor]:
    """The module, and an example of what it takes: the first size is the number of samples."""
    model = nn.Sequential(
        nn.Conv2d(3, 256, 7, stride=4, padding=3),
        *(Block(256) for _ in range(12)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 1000),
    )
    return model, torch.zeros(8, 3, 224, 224)
