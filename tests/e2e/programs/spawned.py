"""Data parallel training whose ranks the script starts by itself, by `torch.multiprocessing.spawn`.

A step is one of the optimizer. With `--fail`, the last rank raises an error after half of them.
"""

import argparse
import os
import socket

import torch
import torch.distributed as dist
from descent import Descent, average_gradients
from torch import nn
from torch.multiprocessing.spawn import spawn

RANKS = 2


def train(rank: int, port: int, steps: int, fail: bool) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = nn.Linear(64, 64)
    optimizer = Descent(model.parameters(), lr=0.1)
    for step in range(steps):
        if fail and rank == RANKS - 1 and step == steps // 2:
            raise ValueError("no more data")
        loss = model(torch.randn(8, 64)).square().mean()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"loss {loss.item():.6f}")
    dist.destroy_process_group()
    if rank == 0:
        print(f"done: {steps} steps", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--fail", action="store_true")
    options = parser.parse_args()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    spawn(train, args=(port, options.steps, options.fail), nprocs=RANKS)


if __name__ == "__main__":
    main()
