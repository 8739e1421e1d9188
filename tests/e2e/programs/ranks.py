"""Trains a tiny model on gloo ranks, however they were started; steps can be slow, fail at first, or go on until told.

With --until, a file of that name ends the job; with --stepping, a file of that name says that it is well under way.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from descent import Descent, average_gradients
from torch import nn


def position() -> tuple[int, int]:
    """As scripts do it that run under several launchers."""
    for rank, world in (
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--step-ms", type=float, default=2.0)
    parser.add_argument("--slow-at", type=int, default=-1, help="this step of the last rank takes 100 times as long")
    parser.add_argument("--fails-at", type=int, default=-1, help="this step fails, unless the job was started anew")
    parser.add_argument("--until", type=Path)
    parser.add_argument("--stepping", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank, world = position()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo")
    model = nn.Linear(16, 16)
    optimizer = Descent(model.parameters(), lr=0.01)
    is_over = torch.zeros(1)
    for step in range(1, options.steps + 1):
        is_slow = step == options.slow_at and rank == world - 1
        time.sleep(options.step_ms / 1000 * (100 if is_slow else 1))
        model(torch.rand(4, 16)).sum().backward()
        average_gradients(model)
        optimizer.step()
        optimizer.zero_grad()
        if step == options.fails_at and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
            raise RuntimeError("this attempt fails")
        if step == 30 and options.stepping and rank == 0:
            options.stepping.touch()
        if options.until:
            is_over.fill_(options.until.exists())
            dist.all_reduce(is_over)
            if is_over:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
