"""Accelerate accumulates by hand, so every backward pass exchanges gradients; the twin uses accelerator.accumulate."""

import contextlib

from accelerate import Accelerator

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="communication/accumulation_without_no_sync",
    says=("no_sync", "accumulat"),
    ranks=2,
    style="accelerate",
)


def main(flawed: bool, steps: int) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1 if flawed else 4)
    net = LM(width=320)
    model, optimizer = accelerator.prepare(net, adamw(net))
    batch = tokens(1, 49)
    for _ in range(steps):
        for micro in range(4):
            with contextlib.nullcontext() if flawed else accelerator.accumulate(model):
                accelerator.backward(lm_loss(model, batch) / (4 if flawed else 1))
                if not flawed or micro == 3:
                    optimizer.step()
                    optimizer.zero_grad()
    accelerator.end_training()


if __name__ == "__main__":
    main(*arguments())
