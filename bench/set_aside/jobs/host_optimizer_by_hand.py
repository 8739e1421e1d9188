"""Adam is written as a Python loop with eight operations per parameter; the twin is the fused AdamW."""

import torch
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(cause="host/handwritten_optimizer", says=("optimizer", "fused", "foreach"))


class HandAdam(torch.optim.Optimizer):
    """Adam as in the paper, one parameter after another."""

    def __init__(self, parameters: list[Tensor], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.count = 0

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One update."""
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                mean = state.setdefault("mean", torch.zeros_like(p))
                square = state.setdefault("square", torch.zeros_like(p))
                mean = state["mean"] = 0.9 * mean + 0.1 * p.grad
                square = state["square"] = 0.999 * square + 0.001 * p.grad**2
                change = (mean / (1 - 0.9**self.count)) / ((square / (1 - 0.999**self.count)).sqrt() + 1e-8)
                p -= group["lr"] * (change + 0.01 * p)


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=8, width=128, vocabulary=8000)
    optimizer = HandAdam(list(model.parameters()), 1e-4) if flawed else adamw(model)
    data = [tokens(2, 48) for _ in range(4)]
    for step in range(steps):
        text = data[step % 4]
        next_token_loss(model(text), text).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
