"""Gradient accumulation: four backward passes to a step, and a scheduler of the learning rate.

A step is one of the optimizer.
"""

import argparse

import torch
from torch import nn

PASSES = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    done = 0
    for number in range(1, steps * PASSES + 1):
        inputs = torch.randn(16, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True)) / PASSES
        loss.backward()
        if number % PASSES:
            continue
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        done += 1
        if done % 10 == 0:
            print(f"step {done}  loss {loss.item():.6f}  learning rate {scheduler.get_last_lr()[0]:.6f}")
    print(f"done: {done} steps")


if __name__ == "__main__":
    main()
