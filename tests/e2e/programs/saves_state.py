"""Trains a small model, prints every loss and saves all that it has learned; a child is forked meanwhile and ends.

On one process or on several with gloo. Gradients of a step are freed in the next one, so that a window finds old ones.
"""

import argparse
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from descent import average_gradients
from torch import nn

STEPS, FORKS_AT = 16, 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.1), nn.GELU(), nn.Linear(64, 64), nn.LayerNorm(64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + rank)
    for step in range(STEPS):
        loss = model(torch.randn(16, 32)).pow(2).mean() + model(torch.randn(8, 32)).abs().sum()
        optimizer.zero_grad()
        loss.backward()
        if world > 1:
            average_gradients(model)
        elif step == FORKS_AT:
            forked()
        optimizer.step()
        sys.stdout.write(f"rank {rank} step {step} loss {float(loss.detach()).hex()}\n")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
    torch.save(state, options.out / f"state.{rank}.pt")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


def forked() -> None:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
