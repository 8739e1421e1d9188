"""Mixed precision with a GradScaler, and gradients that are clipped.

A step is an iteration. With `--overflow N`, the gradients of every N-th are infinite: the scaler then skips the step of
the optimizer, as it does on GPUs while it looks for its scale.
"""

import argparse

import torch
from descent import Descent
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--overflow", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    optimizer = Descent(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=256.0)
    skipped = 0
    for step in range(1, options.steps + 1):
        inputs = torch.randn(16, 32, device=device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        if options.overflow and step % options.overflow == 0:
            loss = loss * float("inf")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < scale
        if step % 10 == 0:
            print(f"step {step}  loss {loss.item():.6f}  scale {scaler.get_scale():g}")
    print(f"skipped: {skipped}")
    print(f"done: {options.steps} steps")


if __name__ == "__main__":
    main()
