"""Shared by all jobs set aside: their arguments, and small models."""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

VOCABULARY = 1000
WIDTH = 192
HEADS = 4


def arguments() -> tuple[bool, int]:
    """Which twin, and how many steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("twin", choices=("flawed", "healthy"))
    parser.add_argument("--steps", type=int, default=24)
    options = parser.parse_args()
    return options.twin == "flawed", options.steps


def begin(seed: int = 0) -> None:
    """One thread and known random numbers."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)


@contextmanager
def process_group() -> Iterator[int]:
    """Join the ranks that torchrun started; gives this one's number."""
    dist.init_process_group("gloo")
    try:
        yield dist.get_rank()
    finally:
        # A thread of gloo needs the interpreter to forget its last exchange; torch 2.13 may wait for it for ever.
        time.sleep(0.05)
        dist.destroy_process_group()


def reduce_by_sums(model: nn.Module) -> None:
    """Gloo cannot average: have sharded modules sum, then divide."""
    for part in model.modules():
        if isinstance(part, FSDPModule):
            part.set_force_sum_reduction_for_comms(True)


class Attention(nn.Module):
    """Causal self-attention, fused."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A transformer block with the norms first."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """A small language model."""

    def __init__(self, layers: int = 3, width: int = WIDTH, vocabulary: int = VOCABULARY, longest: int = 1024) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def body(self, tokens: Tensor) -> Tensor:
        """Everything before the head."""
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.body(tokens))


class ConvNet(nn.Module):
    """A small image classifier."""

    def __init__(self, channels: int = 48, classes: int = 10) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(inputs, channels, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
            )
            for inputs, stride in ((3, 1), (channels, 1), (channels, 2), (channels, 1))
        )
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


def mlp(width: int, depth: int, classes: int = 10) -> nn.Sequential:
    """A plain stack of layers."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))


def tokens(batch: int = 8, length: int = 64, vocabulary: int = VOCABULARY) -> Tensor:
    """Random text."""
    return torch.randint(1, vocabulary, (batch, length))


def next_token_loss(logits: Tensor, text: Tensor) -> Tensor:
    """Cross entropy of each token given those before it; token 0 is padding."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten(), ignore_index=0)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW, fused, over what is to be trained."""
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """The backward pass and the optimizer."""
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def train_text(model: nn.Module, steps: int, text: Callable[[int], Tensor] | None = None) -> None:
    """A plain training loop over text, in memory unless given otherwise."""
    optimizer = adamw(model)
    data = [tokens() for _ in range(4)]
    for step in range(steps):
        batch = text(step) if text else data[step % 4]
        update(optimizer, next_token_loss(model(batch), batch))
