"""The one worker augments signals sample by sample in Python and cannot keep up; the twin does the same in NumPy."""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, update

LABEL = Label(cause="input/slow_workers", says=("worker", "augment", "loader", "data loading", "__getitem__"))
BATCH, LENGTH = 96, 512


class Signals(Dataset[tuple[Tensor, int]]):
    """Signals that get noise, gain and a soft clip when read."""

    def __init__(self, count: int, in_python: bool) -> None:
        self.raw = np.random.default_rng(0).standard_normal((256, LENGTH)).astype(np.float32)
        self.count, self.in_python = count, in_python

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        signal = self.raw[index % 256]
        if self.in_python:
            changed = [math.tanh(1.5 * (float(value) + 0.1 * random.gauss(0, 1))) for value in signal]
            return torch.tensor(changed), index % 10
        noise = np.random.standard_normal(LENGTH).astype(np.float32)
        return torch.from_numpy(np.tanh(1.5 * (signal + 0.1 * noise))), index % 10


def main(flawed: bool, steps: int) -> None:
    begin()
    model = mlp(LENGTH, 12)
    optimizer = adamw(model)
    loader = DataLoader(Signals(BATCH * steps, flawed), batch_size=BATCH, num_workers=1, prefetch_factor=4)
    for signals, classes in loader:
        update(optimizer, F.cross_entropy(model(signals), classes))


if __name__ == "__main__":
    main(*arguments())
