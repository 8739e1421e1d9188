"""Trains a small model on gloo ranks, or on one; each rank writes the bytes of every loss, and its CPU time."""

import argparse
import os
import struct
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--pause-s", type=float, default=0.0, help="in each step: it makes windows rarer, not longer")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--losses", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128)) for _ in range(options.layers))
    model: nn.Module = nn.Sequential(*blocks, nn.Linear(128, 8))
    rank = int(os.environ.get("RANK", "0"))
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = torch.Generator().manual_seed(rank)
    began_s = time.process_time()
    with options.losses.with_suffix(f".{rank}").open("wb") as losses:
        for _ in range(options.steps):
            batch = torch.randn(64, 128, generator=batches)
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.write(struct.pack("<f", loss.item()))
            time.sleep(options.pause_s)
    options.losses.with_suffix(f".{rank}.cpu").write_text(str(time.process_time() - began_s))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
