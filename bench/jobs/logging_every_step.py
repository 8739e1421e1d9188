"""Norms and histograms of all gradients are read and written to a log every step; the twin does so every 1000 steps."""

import json
import tempfile

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/logging_every_step", says=("log", ".item", "every step"))


def main(flawed: bool, steps: int) -> None:
    every = 1 if flawed else 1000
    model = LM()
    optimizer, batch = adamw(model), tokens()
    with tempfile.TemporaryFile("w") as log:
        for step in range(1, steps + 1):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == 0:
                row: dict[str, object] = {"loss": loss.item()}
                for name, weight in model.named_parameters():
                    assert weight.grad is not None
                    histogram = torch.histc(weight.grad, 64).tolist()
                    row[name] = [weight.norm().item(), weight.grad.norm().item(), histogram]
                log.write(json.dumps(row) + "\n")
                log.flush()


if __name__ == "__main__":
    main(*arguments())
