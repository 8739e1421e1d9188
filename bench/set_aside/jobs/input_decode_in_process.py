"""Images are unpacked and scaled in the training process (num_workers=0); the twin has one worker process do it."""

import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.label import Label
from bench.set_aside.common import ConvNet, adamw, arguments, begin, update

LABEL = Label(
    cause="input/loading_in_training_process", says=("num_workers", "worker", "training process", "main process")
)
BATCH = 24


class Pictures(Dataset[tuple[Tensor, int]]):
    """Compressed pictures of 256 x 256, shrunk to 32 x 32 when read."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.files = [zlib.compress(rng.integers(0, 64, (256, 256, 3), dtype=np.uint8).tobytes(), 1) for _ in range(16)]
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        raw = np.frombuffer(zlib.decompress(self.files[index % 16]), dtype=np.uint8).reshape(1, 256, 256, 3)
        picture = torch.from_numpy(raw.copy()).permute(0, 3, 1, 2).float().div_(255)
        return F.interpolate(picture, 32, mode="area")[0], index % 10


def main(flawed: bool, steps: int) -> None:
    begin()
    model = ConvNet()
    optimizer = adamw(model)
    loader = DataLoader(
        Pictures(BATCH * steps), batch_size=BATCH, num_workers=0 if flawed else 1, prefetch_factor=None if flawed else 4
    )
    for pictures, classes in loader:
        update(optimizer, F.cross_entropy(model(pictures), classes))


if __name__ == "__main__":
    main(*arguments())
