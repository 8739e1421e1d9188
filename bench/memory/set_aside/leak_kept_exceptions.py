"""Leak: exceptions of images that could not be cropped are kept, and their tracebacks hold the batches of all steps."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS = 12
CROP = 96


class TooSmallError(ValueError):
    pass


def crop(image, size):
    height, width = image.shape[-2:]
    if height < size or width < size:
        raise TooSmallError(f"image of {height} x {width} is smaller than the crop of {size} x {size}")
    top, left = (height - size) // 2, (width - size) // 2
    return image[:, top : top + size, left : left + size]


class PhotoFolder:
    """Stands for a folder of photos; one in eight is too small to be cropped."""

    def __init__(self, keep_errors):
        self.generator = torch.Generator().manual_seed(32)
        self.keep_errors = keep_errors
        self.failures = []

    def decode(self, index):
        side = 80 if index % 8 == 5 else 112
        return torch.rand(3, side, side, generator=self.generator)

    def load(self, indices):
        photos = [self.decode(index) for index in indices]
        small, labels = [], []
        for index, photo in zip(indices, photos, strict=True):
            try:
                cropped = crop(photo, CROP)
            except TooSmallError as error:
                self.failures.append((index, error if self.keep_errors else str(error)))
                continue
            small.append(F.interpolate(cropped[None], size=(24, 24), mode="area"))
            labels.append(index % 10)
        return torch.cat(small), torch.tensor(labels)


def conv(inputs, outputs, stride):
    return [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(8, outputs), nn.ReLU(inplace=True)]


def make_model():
    return nn.Sequential(
        *conv(3, 32, 1), *conv(32, 64, 2), *conv(64, 128, 2), *conv(128, 256, 2),
        nn.Flatten(), nn.Linear(256 * 9, 768), nn.ReLU(inplace=True), nn.Linear(768, 10),
    )  # fmt: skip


def main():
    torch.set_num_threads(1)
    torch.manual_seed(31)
    folder = PhotoFolder(keep_errors=sys.argv[1] == "flawed")
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    for step in range(STEPS):
        images, labels = folder.load(range(8 * step, 8 * step + 8))
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del images, labels, loss
    print(f"{len(folder.failures)} photos left out, the first: {folder.failures[0][1]}")


if __name__ == "__main__":
    main()
