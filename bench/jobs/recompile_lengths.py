"""A compiled model with dynamic=False meets a new length every fourth step; the twin pads to one length."""

import torch
from torch import nn

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="host/recompilation",
    says=("recompil", "dynamic"),
    pattern="every 4 steps",
    style="compiled",
)


def main(flawed: bool, steps: int) -> None:
    model = LM(layers=2)
    fast: nn.Module = torch.compile(model, backend="aot_eager", dynamic=False)  # type: ignore[assignment]
    optimizer = adamw(model)
    for step in range(steps):
        length = 65 + step // 4 if flawed else 72
        loss = lm_loss(fast, tokens(4, length))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
