"""examples/diffusion_transformer.py, tuned by hand: everything that is set outside of the model and of the loop."""

import argparse
import copy
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from examples.diffusion_transformer import BATCH, TIMES, DiT, Pictures, loss_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    loader = DataLoader(Pictures(steps * BATCH), batch_size=BATCH, shuffle=True, num_workers=1)
    model = DiT()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES), dim=0)
    for step, (pictures, shapes) in enumerate(loader, start=1):
        loss = loss_of(model, kept, pictures, shapes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
        if step % 10 == 0 or step == steps:
            print(f"step {step:4d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
