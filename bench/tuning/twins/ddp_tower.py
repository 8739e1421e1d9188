"""bench/tuning/jobs/ddp_tower.py, tuned by hand: options of DistributedDataParallel and a fused optimizer."""

import argparse
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tuning.jobs.ddp_tower import BATCH, Tower, Vectors, train


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    vectors = Vectors()
    loader = DataLoader(vectors, batch_size=BATCH, sampler=DistributedSampler(vectors))
    model = DistributedDataParallel(Tower(), bucket_cap_mb=25, gradient_as_bucket_view=True)
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True), loader, steps)
    time.sleep(0.05)  # gloo of torch 2.13 may hang at exit without it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
