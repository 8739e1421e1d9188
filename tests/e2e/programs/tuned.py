"""Trains a perceptron on the CPU as one should: large batches in memory, warmed up, a fused optimizer.

`python tuned.py FILE` writes a trace of three steps.
"""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH, BATCH, LAYERS, WARMUP, ACTIVE = 1536, 1024, 4, 1, 3


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    batch, target = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
    plan = schedule(wait=0, warmup=WARMUP, active=ACTIVE)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=plan,
        record_shapes=True,
        on_trace_ready=lambda done: done.export_chrome_trace(sys.argv[1]),
    ) as profiler:
        for _ in range(WARMUP + ACTIVE):
            loss = nn.functional.mse_loss(model(batch), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()


if __name__ == "__main__":
    main()
