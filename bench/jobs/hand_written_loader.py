"""A hand-written generator augments images with NumPy between the steps; the twin prepared them before."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bench.common import ConvNet, Label, adamw, arguments

LABEL = Label(cause="input/hand_written_loader", says=("data", "input", "loader", "augment"))
RANDOM = np.random.default_rng(0)


def augmented(count: int) -> Tensor:
    images = []
    for _ in range(count):
        image = RANDOM.standard_normal((3, 72, 72), dtype=np.float32)
        for _ in range(3):
            image = np.roll(image, RANDOM.integers(-4, 4), axis=1)
            image = (image - image.mean()) / image.std()
        images.append(image[:, 4:68, 4:68].copy())
    return torch.from_numpy(np.stack(images))


def batches(flawed: bool, steps: int) -> Iterator[Tensor]:
    ready = [augmented(24) for _ in range(2)]
    for step in range(steps):
        yield augmented(24) if flawed else ready[step % 2]


def main(flawed: bool, steps: int) -> None:
    model = ConvNet(width=16, blocks=3)
    optimizer, classes = adamw(model), torch.randint(0, 10, (24,))
    for images in batches(flawed, steps):
        loss = F.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
