"""Two ranks train a tower of residual layers with DistributedDataParallel, in buckets of a tenth of a megabyte.

    torchrun --nproc-per-node 2 bench/tuning/jobs/ddp_tower.py

The data is made up; nothing is downloaded, and nothing is written.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

WIDTH, LAYERS, CLASSES, SAMPLES, BATCH = 384, 8, 16, 8192, 16


class Vectors(Dataset[tuple[Tensor, int]]):
    """Noise around the pattern of a class."""

    def __init__(self) -> None:
        self.patterns = torch.randn(CLASSES, WIDTH)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        chance = torch.Generator().manual_seed(index)
        return self.patterns[index % CLASSES] + torch.randn(WIDTH, generator=chance), index % CLASSES


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(functional.gelu(self.wide(self.norm(x))))


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x))


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[tuple[Tensor, int]], steps: int
) -> None:
    step = 0
    while step < steps:
        for samples, labels in loader:
            loss = functional.cross_entropy(model(samples), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0 and dist.get_rank() == 0:
                print(f"step {step:6d}  loss {loss.item():.4f}")
            if step == steps:
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    vectors = Vectors()
    loader = DataLoader(vectors, batch_size=BATCH, sampler=DistributedSampler(vectors))
    model = DistributedDataParallel(Tower(), bucket_cap_mb=0.1)
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), loader, steps)
    time.sleep(0.05)  # gloo of torch 2.13 may hang at exit without it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
