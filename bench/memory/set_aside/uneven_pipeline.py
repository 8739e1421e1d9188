"""Uneven ranks: of 12 blocks in a pipeline of two stages rank 0 holds 9 and rank 1 holds 3; the twin splits 6 and 6."""

import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH, CLASSES, BATCH, BLOCKS = 384, 16, 24, 12


class ResidualMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def first_stage_step(stage, features):
    output = stage(features)
    dist.send(output.detach(), dst=1)
    gradient = torch.empty_like(output)
    dist.recv(gradient, src=1)
    output.backward(gradient)


def last_stage_step(stage, labels):
    received = torch.empty(BATCH, WIDTH)
    dist.recv(received, src=0)
    received.requires_grad_()
    loss = F.cross_entropy(stage(received), labels)
    loss.backward()
    dist.send(received.grad, dst=0)
    return loss.item()


def make_stage(rank, first_blocks):
    blocks = [ResidualMLP() for _ in range(first_blocks if rank == 0 else BLOCKS - first_blocks)]
    return nn.Sequential(*blocks) if rank == 0 else nn.Sequential(*blocks, nn.Linear(WIDTH, CLASSES))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(111 + rank)
    stage = make_stage(rank, first_blocks=9 if sys.argv[1] == "flawed" else 6)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3, fused=True)
    data = torch.Generator().manual_seed(112)
    for step in range(12):
        features = torch.randn(BATCH, WIDTH, generator=data)
        labels = torch.randint(0, CLASSES, (BATCH,), generator=data)
        loss = first_stage_step(stage, features) if rank == 0 else last_stage_step(stage, labels)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if loss is not None:
            print(f"step {step}: loss {loss:.4f}")
    time.sleep(0.05)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
