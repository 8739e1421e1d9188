"""Trains a GPT of 29 M or 1 M parameters and prints what each step took: wall and CPU seconds of this process.

In the large one, time is in products of matrices. The small one has as many operators, and time is in calling them.
"""

import argparse
import json
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, WIDTH, TOKENS = {"large": 8192, "small": 1024}, {"large": 512, "small": 96}, {"large": 128, "small": 32}
LAYERS = 8


class Block(nn.Module):
    """Attention and two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """With a tied head."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.norm(self.blocks(self.embed(tokens))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=WORDS)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words, tokens_of_step = WORDS[options.size], TOKENS[options.size]
    model = Gpt(words, WIDTH[options.size])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps, losses = [], []
    for _ in range(options.steps):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        tokens = torch.randint(words, (1, tokens_of_step + 1))
        logits = model(tokens[:, :-1])
        loss: Any = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        steps.append((time.perf_counter() - wall_s, time.process_time() - cpu_s))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"parameters": parameters, "steps": steps, "losses": losses}))


if __name__ == "__main__":
    main()
