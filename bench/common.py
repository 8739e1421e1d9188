"""Shared by all jobs: the label, the arguments of a job, and small models."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.label import Label

__all__ = [
    "LM",
    "Block",
    "ConvNet",
    "Label",
    "StaticCache",
    "adamw",
    "arguments",
    "lm_loss",
    "local_rank",
    "process_group",
    "tokens",
    "tower",
]

torch.manual_seed(0)
torch.set_num_threads(1)


def arguments() -> tuple[bool, int]:
    """Which twin, and how many steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("twin", choices=("flawed", "healthy"))
    parser.add_argument("--steps", type=int, default=24)
    options = parser.parse_args()
    return options.twin == "flawed", options.steps


@contextmanager
def process_group() -> Iterator[int]:
    """Join the ranks that torchrun started, over gloo; gives the own rank."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


class StaticCache:
    """Keys and values of one layer, in memory that is taken once."""

    def __init__(self, batch: int, heads: int, context: int, size: int) -> None:
        self.keys = torch.zeros(batch, heads, context, size)
        self.values = torch.zeros(batch, heads, context, size)

    def extend(self, keys: Tensor, values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        end = start + keys.shape[2]
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        return self.keys[:, :, :end], self.values[:, :, :end]


class Block(nn.Module):
    """A transformer block with fused causal attention."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        new, seen = q.shape[2], k.shape[2]
        mask = torch.ones(new, seen, dtype=torch.bool).tril(seen - new) if 1 < new < seen else None
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=1 < new == seen)

    def forward(self, x: Tensor, cache: StaticCache | None = None, start: int = 0) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.extend(k, v, start)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class LM(nn.Module):
    """A small language model, with a cache of keys and values if one is given."""

    positions: Tensor

    def __init__(
        self, width: int = 256, layers: int = 3, vocab: int = 1024, context: int = 1024, heads: int = 4
    ) -> None:
        super().__init__()
        self.width, self.layers, self.heads, self.context = width, layers, heads, context
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.register_buffer("positions", torch.arange(context), persistent=False)

    def hidden(self, tokens: Tensor, caches: list[StaticCache] | None = None, start: int = 0) -> Tensor:
        x = self.token(tokens) + self.position(self.positions[start : start + tokens.shape[1]])
        for n, block in enumerate(self.blocks):
            x = block(x) if caches is None else block(x, caches[n], start)
        out: Tensor = self.norm(x)
        return out

    def forward(self, tokens: Tensor, caches: list[StaticCache] | None = None, start: int = 0) -> Tensor:
        out: Tensor = self.head(self.hidden(tokens, caches, start))
        return out

    def caches(self, batch: int) -> list[StaticCache]:
        return [StaticCache(batch, self.heads, self.context, self.width // self.heads) for _ in range(self.layers)]


class ConvNet(nn.Module):
    """A small image classifier: convolution, batch norm and ReLU, several times."""

    def __init__(self, width: int = 32, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
                for _ in range(blocks)
            )
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(self.stem(images)).mean((2, 3)))
        return out


def tower(width: int, layers: int) -> nn.Sequential:
    """A deep stack of small layers: many parameters, little work for each."""
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()) for _ in range(layers))
    )


def tokens(batch: int = 4, length: int = 65, vocab: int = 1024) -> Tensor:
    return torch.randint(0, vocab, (batch, length))


def lm_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Cross entropy of the next token."""
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def adamw(model: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
