"""AdamW updates one parameter after the other (foreach=False); the twin is fused."""

import torch

from bench.common import Label, arguments, tower

LABEL = Label(cause="host/optimizer_loops_over_parameters", says=("fused", "foreach", "optimizer"))


def main(flawed: bool, steps: int) -> None:
    model = tower(96, 120)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False, fused=not flawed)
    inputs = torch.randn(512, 96)
    for _ in range(steps):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
