"""Trains a small GPT on the CPU, alone or with DDP under torchrun: plain PyTorch, for plans that start from a run."""

import os
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 512, 64, 128, 4, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, context, _ = x.shape
        mixed = self.query_key_value(self.norm_1(x)).view(batch, context, HEADS, -1).transpose(1, 2)
        query, key, value = mixed.chunk(3, dim=-1)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(x.shape))
        output: Tensor = x + self.down(functional.gelu(self.up(self.norm_2(x))))
        return output


def main() -> None:
    batch, steps = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    blocks = (Block() for _ in range(LAYERS))
    head = nn.Linear(WIDTH, VOCABULARY, bias=False)
    model: nn.Module = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *blocks, nn.LayerNorm(WIDTH), head)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (batch, CONTEXT))
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
