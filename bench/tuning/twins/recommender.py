"""bench/tuning/jobs/recommender.py, tuned by hand: a fused optimizer and a worker; its malloc keeps freed memory."""

import argparse
import sys
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tuning.jobs.recommender import BATCH, Recommender, clicks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    model = Recommender()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(clicks(), batch_size=BATCH, shuffle=True, num_workers=1, persistent_workers=True)
    step = 0
    while step < steps:
        for figures, rows, liked in loader:
            optimizer.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(model(figures, rows), liked)
            loss.backward()
            optimizer.step()
            step += 1
            if step == steps:
                break


if __name__ == "__main__":
    main()
