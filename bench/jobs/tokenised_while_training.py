"""A tokeniser in pure Python runs in __getitem__ without workers; the twin tokenised before training."""

import itertools

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.common import LM, Label, adamw, arguments, lm_loss

LABEL = Label(
    cause="input/loaded_in_training_process", says=("num_workers", "DataLoader", "data loader", "training process")
)
TEXT = "the quick brown fox jumps over a lazy dog and runs away " * 30


def tokenised(index: int) -> Tensor:
    """Byte pairs that merge for a few rounds."""
    ids = [ord(letter) + index % 7 for letter in TEXT]
    for merge in range(12):
        ids = [(a * 31 + b + merge) % 1024 for a, b in itertools.pairwise(ids)]
    return torch.tensor(ids[:65])


class Texts(Dataset[Tensor]):
    def __init__(self, count: int, ready: bool) -> None:
        self.count, self.ready = count, [tokenised(n) for n in range(7)] if ready else None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return tokenised(index) if self.ready is None else self.ready[index % 7]


def main(flawed: bool, steps: int) -> None:
    model = LM()
    optimizer = adamw(model)
    for batch in DataLoader(Texts(8 * steps, not flawed), batch_size=8):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
