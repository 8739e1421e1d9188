"""Replicated states: with DDP both ranks hold all of Adam's states; the twin shards them, with FSDP2 (fully_shard)."""

import math
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

SIGNAL, WIDTH, BLOCKS, BATCH, STEPS = 96, 224, 14, 16, 12


class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.shift = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, moment):
        return x + self.down(F.relu(self.up(self.norm(x) + self.shift(moment))))


class Denoiser(nn.Module):
    """A small diffusion model over short signals."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(SIGNAL, WIDTH)
        self.blocks = nn.ModuleList(Conditioned() for _ in range(BLOCKS))
        self.leave = nn.Linear(WIDTH, SIGNAL)

    def forward(self, noisy, time_of):
        steps = torch.exp(-math.log(1e4) * torch.arange(WIDTH // 2) / (WIDTH // 2))
        angles = time_of[:, None] * steps
        moment = torch.cat([angles.sin(), angles.cos()], dim=1)
        x = self.enter(noisy)
        for block in self.blocks:
            x = block(x, moment)
        return self.leave(x)


def distribute(model, side):
    if side == "flawed":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model, data):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(STEPS):
        clean, noise = torch.randn(2, BATCH, SIGNAL, generator=data)
        time_of = torch.rand(BATCH, generator=data)
        noisy = (1 - time_of[:, None]) * clean + time_of[:, None] * noise
        loss = F.mse_loss(model(noisy, 1000 * time_of), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        del clean, noise, noisy, loss


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(121)
    model = distribute(Denoiser(), sys.argv[1])
    train(model, torch.Generator().manual_seed(122 + dist.get_rank()))
    time.sleep(0.05)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
