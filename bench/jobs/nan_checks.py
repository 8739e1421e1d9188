"""All weights and gradients are searched for NaN in every step; the twin searches every thousand steps."""

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/nan_checks_every_step", says=("isnan", "isfinite", "NaN", ".item", "check"))


def main(flawed: bool, steps: int) -> None:
    every = 1 if flawed else 1000
    model = LM(width=384)
    optimizer, batch = adamw(model), tokens(2)
    for step in range(1, steps + 1):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            for weight in model.parameters():
                assert weight.grad is not None
                if torch.isnan(weight).any() or torch.isinf(weight).any():
                    raise ValueError("a weight is not finite")
                if torch.isnan(weight.grad).any() or torch.isinf(weight.grad).any():
                    raise ValueError("a gradient is not finite")


if __name__ == "__main__":
    main(*arguments())
