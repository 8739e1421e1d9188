"""The model is evaluated on six batches every fourth step; the twin evaluates every thousand steps."""

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="host/evaluation_often",
    says=("evaluation", "eval", "validation"),
    pattern="every 4 steps",
)


def main(flawed: bool, steps: int) -> None:
    every = 4 if flawed else 1000
    model = LM()
    optimizer, batch, held_out = adamw(model), tokens(), [tokens() for _ in range(6)]
    for step in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == every - 1:
            model.eval()
            with torch.inference_mode():
                torch.stack([lm_loss(model, one) for one in held_out]).mean().item()
            model.train()


if __name__ == "__main__":
    main(*arguments())
