"""The optimizer in the backward pass: each parameter has its own, which steps as soon as the gradient is there.

A step is one backward pass, in which all of them step. The gradient is freed at once, so it never exists as a whole.
"""

import argparse

import torch
from descent import Descent
from torch import Tensor, nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizers: dict[Tensor, Descent] = {parameter: Descent([parameter], lr=1e-3) for parameter in model.parameters()}

    def step_and_free(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_and_free)
    for step in range(1, steps + 1):
        inputs = torch.randn(16, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        loss.backward()
        if step % 10 == 0:
            print(f"step {step}  loss {loss.item():.6f}")
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
