"""One worker prepares batches more slowly than a loop like transformers' Trainer uses them; the twin's are ready."""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.common import LM, Label, adamw, arguments, lm_loss

LABEL = Label(cause="input/too_few_workers", says=("num_workers", "worker", "data loader"))
TEXT = "all work and no play makes a slow job of any loader " * 12


@dataclass
class Output:
    loss: Tensor


class Model(LM):
    def __call__(self, *, input_ids: Tensor, labels: Tensor) -> Output:
        return Output(loss=lm_loss(super().__call__, labels))  # type: ignore[arg-type]


def tokenised(index: int) -> Tensor:
    ids = [ord(letter) + index % 7 for letter in TEXT]
    for merge in range(500):
        ids = [(a * 31 + b + merge) % 1024 for a, b in itertools.pairwise(ids)]
    return torch.tensor(ids[:65])


class Texts(Dataset[dict[str, Tensor]]):
    def __init__(self, count: int, ready: bool) -> None:
        self.count, self.ready = count, tokenised(0) if ready else None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = tokenised(index) if self.ready is None else self.ready
        return {"input_ids": ids, "labels": ids}


def main(flawed: bool, steps: int) -> None:
    model = Model()
    optimizer = adamw(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (steps + 1))
    loader = DataLoader(Texts(8 * steps, not flawed), batch_size=8, num_workers=1, persistent_workers=True)
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        model.zero_grad()


if __name__ == "__main__":
    main(*arguments())
