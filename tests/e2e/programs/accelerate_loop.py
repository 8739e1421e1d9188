"""A loop of one's own with Hugging Face Accelerate, which accumulates gradients over four batches.

Runs alone and under torchrun. A step is one of the optimizer, that is four batches.
"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PASSES, BATCH = 4, 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=PASSES)
    set_seed(0)
    inputs = torch.randn(steps * PASSES * BATCH * accelerator.num_processes, 32)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    done = 0
    for batch, target in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(batch), target)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                done += 1
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients and done % 10 == 0:
            accelerator.print(f"step {done}  loss {loss.item():.6f}")
    accelerator.print(f"done: {done} steps")
    accelerator.end_training()


if __name__ == "__main__":
    main()
