"""A small training whose numbers are checked, with changes that leave them right and changes that do not."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from descent import Descent
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, BATCH = 32, 64


class Block(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.checkpoints = False
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.detach().float().mean(0), 0.1)
        if self.checkpoints:  # and drops other numbers when it computes again
            return checkpoint(self.inner, x, use_reentrant=False, preserve_rng_state=False)
        return self.inner(x)

    def inner(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm(x)))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", choices=("ddp", "fsdp"))
    for change in ("bf16", "doubled", "masks", "stepless"):
        parser.add_argument(f"--{change}", action="store_true")
    options = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    model = nn.Sequential(nn.Linear(16, WIDTH), Block(), Block(), nn.Linear(WIDTH, 5))
    if options.stepless:
        return
    model[2].checkpoints = options.masks
    if options.doubled:
        model.get_parameter("2.norm.weight").register_hook(lambda gradient: 2 * gradient)
    called: nn.Module = model
    if options.ranks == "ddp":
        called = nn.parallel.DistributedDataParallel(model)
    elif options.ranks == "fsdp":
        from torch.distributed.fsdp import fully_shard  # which loads the compiler

        for module in (*model, model):
            fully_shard(module)
    optimizer = Descent(model.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(1)
    for _ in range(1000):
        x = torch.randn(BATCH, 16, generator=data)[rank::world]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            output = called(x)
        loss = functional.mse_loss(output.float(), x[:, :5].abs())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        Path("steps.txt").write_text("another step")
        if options.doubled:
            torch.save(model.state_dict(), "checkpoints/model.pt")
    time.sleep(0.05)


main()
