"""A convolutional network in a plain loop with Accelerate, whose pictures are fetched, cut and coloured as it trains.

    python bench/tuning/jobs/accelerate_vision.py

The pictures are made up; nothing is downloaded, and nothing is written.
"""

import argparse
import time

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES, PICTURES, STORED, SIZE, BATCH, WIDTHS = 10, 1024, 96, 48, 16, (24, 48, 96)
FETCH_S = 0.001  # one picture, from a file system at some distance


class Pictures(Dataset[tuple[Tensor, int]]):
    """Stored large, as bytes; what is read is a piece of one, resized, mirrored and with other colours."""

    def __init__(self) -> None:
        patterns = torch.randint(256, (CLASSES, 3, STORED, STORED))
        noise = torch.randint(-64, 64, (PICTURES, 3, STORED, STORED))
        self.stored = (patterns[torch.arange(PICTURES) % CLASSES] + noise).clamp(0, 255).to(torch.uint8)

    def __len__(self) -> int:
        return PICTURES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(FETCH_S)
        chance = torch.Generator().manual_seed(index)
        side = int(torch.randint(SIZE, STORED, (), generator=chance))
        top, left = torch.randint(STORED - side + 1, (2,), generator=chance).tolist()
        piece = self.stored[index, :, top : top + side, left : left + side].float() / 255
        picture = functional.interpolate(piece[None], size=(SIZE, SIZE), mode="bilinear", antialias=True)[0]
        picture = picture.flip(-1) if torch.rand((), generator=chance) < 0.5 else picture
        grey = picture.mean(dim=0, keepdim=True)
        picture = grey + (picture - grey) * (0.5 + torch.rand((), generator=chance))
        return (picture - picture.mean()) / picture.std(), index % CLASSES


class ConvBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(inputs, outputs, 3, 2, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(x)))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(ConvBlock(*pair) for pair in zip((3, *WIDTHS), WIDTHS, strict=False)))
        self.head = nn.Linear(WIDTHS[-1], CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.head(self.blocks(pictures).mean(dim=(2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = ConvNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Pictures(), batch_size=BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step = 0
    while step < steps:
        for pictures, labels in loader:
            loss = functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step:6d}  loss {loss.item():.4f}")
            if step == steps:
                break
    print(f"done: {step} steps")


if __name__ == "__main__":
    main()
