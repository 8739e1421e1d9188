"""Each image is unpacked with zlib in the training process; the twin's data set is stored unpacked."""

import zlib

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from bench.common import ConvNet, Label, adamw, arguments

LABEL = Label(
    cause="input/loaded_in_training_process",
    says=("num_workers", "DataLoader", "data loader", "decompress", "training process"),
)


class Images(Dataset[Tensor]):
    def __init__(self, count: int, packed: bool) -> None:
        self.count, self.packed = count, packed
        self.large = torch.randint(0, 32, (8, 3, 256, 256), dtype=torch.uint8)
        self.files = [zlib.compress(image.numpy().tobytes()) for image in self.large]
        self.small = self.large[:, :, ::4, ::4].float() / 255

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        if not self.packed:
            return self.small[index % 8]
        pixels = torch.frombuffer(bytearray(zlib.decompress(self.files[index % 8])), dtype=torch.uint8)
        return pixels.view(3, 256, 256)[:, ::4, ::4].float() / 255


def main(flawed: bool, steps: int) -> None:
    model = ConvNet(width=12, blocks=2)
    optimizer, classes = adamw(model), torch.randint(0, 10, (24,))
    for images in DataLoader(Images(24 * steps, flawed), batch_size=24):
        loss = F.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
