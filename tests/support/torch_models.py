"""Models as their papers describe them, written in torch: functions that `redline plan train --model` can take."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

Built = tuple[nn.Module, Any]


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(made.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, causal=causal)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """With its loss, and the head tied to the embedding."""

    def __init__(self, layers: int, hidden: int, heads: int, vocab: int, positions: int, *, causal: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, causal=causal) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> Any:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Bottleneck(nn.Module):
    def __init__(self, width_in: int, width: int, width_out: int, stride: int, groups: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(
            *_convolution(width_in, width, 1), nn.ReLU(inplace=True),
            *_convolution(width, width, 3, stride, groups), nn.ReLU(inplace=True),
            *_convolution(width, width_out, 1),
        )  # fmt: skip
        changes = stride > 1 or width_in != width_out
        self.past = nn.Sequential(*_convolution(width_in, width_out, 1, stride)) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> Any:
        return functional.relu(self.inside(x) + self.past(x), inplace=True)


def _convolution(width_in: int, width_out: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(width_in, width_out, size, stride, size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(width_out)]


def residual(groups: int, width: int, image: int, samples: int) -> Built:
    """ResNet-50 with 1 group and 64 channels, ResNeXt-50 with 32 and 128."""
    blocks, width_in = [], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for number in range(count):
            stride = 2 if stage > 0 and number == 0 else 1
            blocks.append(Bottleneck(width_in, width * 2**stage, 256 * 2**stage, stride, groups))
            width_in = 256 * 2**stage
    stem = [*_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*stem, *blocks, *head), torch.zeros(samples, 3, image, image)


def gpt2() -> Built:
    tokens = torch.zeros(4, 1024, dtype=torch.long)
    return Transformer(12, 768, 12, 50257, 1024, causal=True), (tokens, tokens)


def resnet50() -> Built:
    return residual(1, 64, 224, 8)


def resnext50() -> Built:
    return residual(32, 128, 224, 8)
