"""A small ResNet trained on several processes with DistributedDataParallel.

    torchrun --nproc-per-node 2 examples/ddp_resnet.py --steps 100
    python examples/ddp_resnet.py                         # the same in one process

Images are made up while the program runs; nothing is downloaded. Processes talk through NCCL if there are GPUs, else
through gloo.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CLASSES, IMAGES, BATCH, WIDTHS = 10, 2048, 32, (16, 32, 64)


class NoisyImages(Dataset[tuple[Tensor, int]]):
    """Colour images of 32 x 32 pixels: each is the pattern of its class under noise, mirrored now and then."""

    def __init__(self) -> None:
        self.patterns = torch.rand(CLASSES, 3, 32, 32)

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        random = torch.Generator().manual_seed(index)
        image = self.patterns[index % CLASSES] + 0.5 * torch.randn(3, 32, 32, generator=random)
        return image.flip(-1) if index % 3 == 0 else image, index % CLASSES


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Two residual blocks of each width."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, WIDTHS[0], 3, padding=1), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU())
        blocks, inputs = [], WIDTHS[0]
        for width in WIDTHS:
            blocks += [ResidualBlock(inputs, width, 1 if width == inputs else 2), ResidualBlock(width, width, 1)]
            inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))


def train(model: nn.Module, device: torch.device, steps: int, rank: int, world: int) -> None:
    images = NoisyImages()
    sampler: DistributedSampler[tuple[Tensor, int]] = DistributedSampler(images, num_replicas=world, rank=rank)
    loader = DataLoader(images, batch_size=BATCH, sampler=sampler, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    step = epoch = 0
    while step < steps:
        sampler.set_epoch(epoch)
        for batch, labels in loader:
            loss = functional.cross_entropy(model(batch.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0 and (step % 10 == 0 or step == steps):
                print(f"epoch {epoch}  step {step:4d}  loss {loss.item():.4f}")
            if step == steps:
                break
        epoch += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    model: nn.Module = ResNet().to(device)
    if world > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        model = DistributedDataParallel(model, device_ids=[local_rank] if device.type == "cuda" else None)
    train(model, device, steps, rank, world)
    if rank == 0:
        print(f"done: {steps} steps")
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
