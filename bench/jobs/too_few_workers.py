"""One worker reads from slow storage (it waits, as for a network); the twin has six workers."""

import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.common import LM, Label, adamw, arguments, lm_loss

LABEL = Label(cause="input/too_few_workers", says=("num_workers", "workers"))


class Remote(Dataset[Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.08)
        return torch.randint(0, 1024, (65,))


def main(flawed: bool, steps: int) -> None:
    model = LM()
    optimizer = adamw(model)
    loader = DataLoader(Remote(4 * steps), batch_size=4, num_workers=1 if flawed else 6)
    for batch in loader:
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
