"""Small models written in torch as their papers describe them, to hold counts against; run on the meta device."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=bias)
        self.output = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x: torch.Tensor, *, causal: bool) -> Any:
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.output(made.transpose(1, 2).flatten(2))


class Conditioned(nn.Module):
    """DiT's layer in diffusers, which embeds time and class anew in each."""

    def __init__(self, hidden: int, heads: int, classes: int) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(256, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.classes = nn.Embedding(classes, hidden)
        self.modulation = nn.Linear(hidden, 6 * hidden)
        self.attention = Attention(hidden, heads, bias=True)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def condition(self, time: torch.Tensor, label: torch.Tensor) -> Any:
        return functional.silu(self.time(time) + self.classes(label))

    def forward(self, x: torch.Tensor, time: torch.Tensor, label: torch.Tensor) -> Any:
        parts = self.modulation(self.condition(time, label)).unsqueeze(1).chunk(6, -1)
        normed = functional.layer_norm(x, x.shape[-1:]) * (1 + parts[0]) + parts[1]
        x = x + parts[2] * self.attention(normed, causal=False)
        normed = functional.layer_norm(x, x.shape[-1:]) * (1 + parts[3]) + parts[4]
        return x + parts[5] * self.down(functional.gelu(self.up(normed)))


class Dit(nn.Module):
    def __init__(self, layers: int, heads: int, size: int, channels: tuple[int, int], classes: int) -> None:
        super().__init__()
        hidden = heads * size
        self.patches = nn.Conv2d(channels[0], hidden, 2, stride=2)
        self.layers = nn.ModuleList(Conditioned(hidden, heads, classes + 1) for _ in range(layers))
        self.last = nn.Linear(hidden, 2 * hidden)
        self.out = nn.Linear(hidden, 4 * channels[1])

    def forward(self, image: torch.Tensor, time: torch.Tensor, label: torch.Tensor) -> Any:
        x = self.patches(image).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, time, label)
        first = self.layers[0]
        assert isinstance(first, Conditioned)
        scale, shift = self.last(first.condition(time, label)).unsqueeze(1).chunk(2, -1)
        return self.out(functional.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)


class Gpt(nn.Module):
    """One layer as GPT-2 has it, without dropout."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, bias=False)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.attention(self.first(x), causal=True)
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Llama(nn.Module):
    """One layer as Llama has it, with as many heads of keys as of queries."""

    def __init__(self, hidden: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(hidden, bias=False), nn.LayerNorm(hidden, bias=False)
        self.attention = Attention(hidden, heads, bias=False)
        self.gate, self.up = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.attention(self.first(x), causal=True)
        normed = self.second(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def dit() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    label = torch.zeros(2, dtype=torch.long)
    return Dit(3, 4, 12, (4, 8), 10), (torch.randn(2, 4, 8, 8), torch.randn(2, 256), label)


def gpt() -> tuple[nn.Module, torch.Tensor]:
    return Gpt(64, 4).bfloat16(), torch.randn(2, 32, 64, dtype=torch.bfloat16)


def llama() -> tuple[nn.Module, torch.Tensor]:
    return Llama(64, 4, 160).bfloat16(), torch.randn(2, 32, 64, dtype=torch.bfloat16)


def cnn() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    layers = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
    return layers, {"input": torch.randn(4, 3, 8, 8)}
