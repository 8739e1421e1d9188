"""Trains a GPT-2 as minGPT does, with what a rung of the memory ladder changes: python ladder_job.py RUNG SIZES"""

import argparse
import contextlib
import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bench.memory.ladder_rungs import RUNGS, SIZES, Rung, Sizes

DROPOUT = 0.1


class NewGelu(nn.Module):
    """In single operators, as minGPT has it."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Attention(nn.Module):
    """In single operators with dropout, or fused without."""

    mask: Tensor

    def __init__(self, rung: Rung, sizes: Sizes) -> None:
        super().__init__()
        width, sequence = sizes.width, sizes.sequence
        self.query_key_value, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout, self.is_fused, self.heads = nn.Dropout(DROPOUT), rung.fused, sizes.heads
        self.register_buffer("mask", torch.ones(sequence, sequence, dtype=torch.bool).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.query_key_value(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.is_fused:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.shape[-1]))
            mixed = self.dropout(scores.masked_fill(self.mask, float("-inf")).softmax(-1)) @ value
        result: Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    """Of GPT-2: norms before attention and the feed-forward part."""

    def __init__(self, rung: Rung, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.norm1, self.norm2, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(rung, sizes)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gelu = nn.GELU() if rung.fused else NewGelu()
        self.dropout = nn.Identity() if rung.fused else nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        result: Tensor = x + self.dropout(self.down(self.gelu(self.up(self.norm2(x)))))
        return result


class Gpt2(nn.Module):
    """Its head is the embedding."""

    def __init__(self, rung: Rung, sizes: Sizes) -> None:
        super().__init__()
        width, words = sizes.width, sizes.words
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(sizes.positions, width)
        self.blocks = nn.ModuleList(Block(rung, sizes) for _ in range(sizes.layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight
        self.rung = rung

    def forward(self, tokens: Tensor) -> tuple[Tensor | None, Tensor]:
        """Logits, which minGPT hands out too, and the loss; the loss alone where it is computed in chunks."""
        x = self.tokens(tokens[:, :-1]) + self.positions.weight[: tokens.shape[1] - 1]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.rung.recomputes else block(x)
        hidden, targets = self.norm(x).flatten(0, 1), tokens[:, 1:].flatten()
        if self.rung.chunks == 1:
            logits = self.head(hidden)
            return logits, functional.cross_entropy(logits, targets)
        parts = zip(hidden.chunk(self.rung.chunks), targets.chunk(self.rung.chunks), strict=True)
        sums = [checkpoint(self._chunk_loss, *part, use_reentrant=False) for part in parts]
        return None, torch.stack(sums).sum() / targets.numel()

    def _chunk_loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(self.head(hidden), targets, reduction="sum")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rung", choices=RUNGS)
    parser.add_argument("sizes", choices=SIZES)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    train(RUNGS[options.rung], SIZES[options.sizes], options.steps)


def train(rung: Rung, sizes: Sizes, steps: int) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    plain = Gpt2(rung, sizes)
    model = _sharded(plain) if rung.ranks > 1 else plain
    optimizer = _optimizer(rung, model)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=rung.clears)
        for _ in range(rung.micro_batches):
            tokens = torch.randint(sizes.words, (sizes.batch // rung.micro_batches, sizes.sequence + 1))
            _forward_backward(rung, model, tokens)
        optimizer.step()
    if rung.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def _forward_backward(rung: Rung, model: nn.Module, tokens: Tensor) -> None:
    """A function of its own, so that logits are gone when the optimizer steps."""
    with torch.autocast("cpu", torch.bfloat16) if rung.autocast else contextlib.nullcontext():
        _logits, loss = model(tokens)
    (loss / rung.micro_batches).backward()


def _sharded(model: Gpt2) -> Any:
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def _optimizer(rung: Rung, model: nn.Module) -> torch.optim.Optimizer:
    how: Any = {"fused": True} if rung.fused_optimizer else {"foreach": True}
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **how)


if __name__ == "__main__":
    main()
