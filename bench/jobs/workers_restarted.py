"""Epochs are four batches long and start six new workers each; the twin has persistent_workers=True."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from bench.common import LM, Label, adamw, arguments, lm_loss

LABEL = Label(
    cause="input/workers_restarted_every_epoch",
    says=("persistent_workers", "workers", "epoch"),
    pattern="every 4 steps",
)


def main(flawed: bool, steps: int) -> None:
    model = LM(width=192)
    optimizer = adamw(model)
    data = TensorDataset(torch.randint(0, 1024, (16, 65)))
    loader = DataLoader(data, batch_size=4, num_workers=6, persistent_workers=not flawed)
    done = 0
    while done < steps:
        for (batch,) in loader:
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1


if __name__ == "__main__":
    main(*arguments())
