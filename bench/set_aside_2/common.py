"""Shared by the second cases set aside: small models of images, sound and tables, and a plain loop."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, process_group, reduce_by_sums, update

__all__ = [
    "Encoder",
    "Label",
    "Layer",
    "adamw",
    "arguments",
    "begin",
    "patches",
    "process_group",
    "reduce_by_sums",
    "residual_mlp",
    "train",
    "update",
]


class Layer(nn.Module):
    """A transformer layer that looks both ways."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query_key_value(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Encoder(nn.Module):
    """Classifies sequences of vectors, as of patches or of frames."""

    def __init__(self, inputs: int, width: int = 256, layers: int = 3, classes: int = 100) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.first(x))).mean(1))


class Residual(nn.Module):
    """Adds what a part makes of its input."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return x + self.part(x)


def residual_mlp(inputs: int, width: int, depth: int, classes: int) -> nn.Sequential:
    """For tables: residual layers of one width."""
    parts = [Residual(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())) for _ in range(depth)]
    return nn.Sequential(nn.Linear(inputs, width), *parts, nn.Linear(width, classes))


def train(model: nn.Module, steps: int, batch: Callable[[int], tuple[Tensor, Tensor]]) -> None:
    """A plain loop that learns classes."""
    optimizer = adamw(model)
    for step in range(steps):
        inputs, targets = batch(step)
        update(optimizer, F.cross_entropy(model(inputs), targets))


def patches(count: int, length: int, size: int, classes: int = 100) -> tuple[Tensor, Tensor]:
    """Random sequences and their classes."""
    return torch.randn(count, length, size), torch.randint(classes, (count,))
