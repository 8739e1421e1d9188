"""Model and optimizer are written to disk every sixth step while training waits; the twin writes once, at the end."""

import tempfile
from pathlib import Path

import torch

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens, update

LABEL = Label(
    cause="host/blocking_checkpoint",
    says=("checkpoint", "save", "async_save", "writing", "disk"),
    pattern="every 6 steps",
)


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2, vocabulary=24_000, width=128)
    optimizer = adamw(model)
    data = [tokens(2, 48) for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        for step in range(steps):
            text = data[step % 4]
            update(optimizer, next_token_loss(model(text), text))
            if step == steps - 1 or (flawed and step % 6 == 5):
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


if __name__ == "__main__":
    main(*arguments())
