"""A model under torch.compile, with an optimizer that is not compiled.

The default backend is quick to compile and needs no C++ compiler; `--backend inductor` is what torch.compile uses.
"""

import argparse

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--backend", default="aot_eager")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
    compiled = torch.compile(model, backend=options.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, options.steps + 1):
        inputs = torch.randn(16, 32)
        loss = nn.functional.mse_loss(compiled(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}  loss {loss.item():.6f}")
    print(f"done: {options.steps} steps")


if __name__ == "__main__":
    main()
