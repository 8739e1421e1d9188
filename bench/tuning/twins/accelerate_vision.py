"""bench/tuning/jobs/accelerate_vision.py, tuned by hand: workers that stay, and a fused optimizer."""

import argparse
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.nn import functional
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tuning.jobs.accelerate_vision import BATCH, ConvNet, Pictures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = ConvNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(Pictures(), batch_size=BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step = 0
    while step < steps:
        for pictures, labels in loader:
            loss = functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step == steps:
                break


if __name__ == "__main__":
    main()
