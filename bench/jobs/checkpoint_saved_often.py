"""A checkpoint is written and synced every fourth step; the twin writes one every thousand steps."""

import os
import pathlib
import tempfile

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="host/checkpoint_saved_often",
    says=("checkpoint", "torch.save", "save"),
    pattern="every 4 steps",
)


def main(flawed: bool, steps: int) -> None:
    every = 4 if flawed else 1000
    model = LM(width=384)
    optimizer, batch = adamw(model), tokens(2)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == every - 1:
                with pathlib.Path(f"{folder}/last.pt").open("wb") as file:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
                    file.flush()
                    os.fsync(file.fileno())


if __name__ == "__main__":
    main(*arguments())
