"""Trains data parallel on gloo ranks with steps of more than a second; on one rank, one part of a step takes longer.

Each part (the loader, Python, compute) lasts as long as a clock says, so that other load on the machine hardly changes
it. The last line on stdout of the slow rank is how much longer its steps took on average, in nanoseconds.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

STEPS, PART_S, LONGER_S = 8, 0.4, 0.25
PARTS = ("input", "host", "compute")


class Parts:
    """What a rank does in each part, and how much longer than planned for the others."""

    def __init__(self, slow: str) -> None:
        self.slow = slow
        self.longer_ns: list[int] = []
        self._matrix = torch.rand(256, 256)  # long against what lies between two products, short against a part

    def spend(self, part: str) -> None:
        begin_ns = time.perf_counter_ns()
        until_ns = begin_ns + int(1e9 * (PART_S + (LONGER_S if part == self.slow else 0.0)))
        if part == "compute":
            while time.perf_counter_ns() < until_ns:
                torch.mm(self._matrix, self._matrix)
        else:
            time.sleep((until_ns - time.perf_counter_ns()) / 1e9)
        if part == self.slow:
            self.longer_ns.append(time.perf_counter_ns() - begin_ns - int(1e9 * PART_S))


class Samples(Dataset[Tensor]):
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> Tensor:
        self.parts.spend("input")
        return torch.randn(8, 64, generator=torch.Generator().manual_seed(index))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow-part", choices=("", *PARTS), default="")
    parser.add_argument("--slow-rank", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    parts = Parts(options.slow_part if dist.get_rank() == options.slow_rank else "")
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Samples(parts), batch_size=None):
        parts.spend("host")
        parts.spend("compute")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if parts.longer_ns:
        print(f"longer: {sum(parts.longer_ns) // len(parts.longer_ns)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
