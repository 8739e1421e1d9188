"""Two processes train a small network with three usual performance flaws; each can be mended from the command line.

    torchrun --standalone --nproc-per-node 2 examples/three_flaws.py
    torchrun --standalone --nproc-per-node 2 examples/three_flaws.py --fix input     # or gradients, or logging
    torchrun --standalone --nproc-per-node 2 examples/three_flaws.py --fixed         # all three

The data is made up while the program runs; nothing is downloaded.
"""

import argparse
import os
import time
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WIDTH, LAYERS, CLASSES, BATCH, ACCUMULATED = 768, 4, 16, 8, 8
READ_S = 0.012  # that storage in the network takes to deliver a sample
FLAWS = ("input", "gradients", "logging")


class Recordings(Dataset[tuple[Tensor, int]]):
    """Noise around the pattern of one of the classes."""

    def __init__(self, samples: int) -> None:
        self.patterns, self.samples = torch.randn(CLASSES, WIDTH), samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(READ_S)
        return self.patterns[index % CLASSES] + torch.randn(WIDTH), index % CLASSES


def network() -> nn.Module:
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


def batches(samples: int, fixed: bool) -> DataLoader[tuple[Tensor, int]]:
    # Flaw 1, `input`: every process reads its samples itself, and trains nothing meanwhile.
    return DataLoader(Recordings(samples), batch_size=BATCH, num_workers=2 if fixed else 0)


def exchange(model: nn.Module, is_last: bool, fixed: bool) -> AbstractContextManager[None]:
    # Flaw 2, `gradients`: they are exchanged in every backward pass, though only the last one before the optimizer
    # needs it.
    return model.no_sync() if fixed and not is_last else nullcontext()  # type: ignore[operator]


def log(model: nn.Module, step: int, steps: int, loss: float, fixed: bool) -> None:
    if step % 10 == 0 or step == steps:
        print(f"step {step:4d}  loss {loss:.4f}", flush=True)
    # Flaw 3, `logging`: the first process draws histograms of all weights in every step, and the other waits for it.
    if not fixed or step % 100 == 0:
        for parameter in model.parameters():
            torch.histc(parameter.detach(), bins=64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--fix", action="append", choices=FLAWS, default=[], help="mend this flaw")
    parser.add_argument("--fixed", action="store_const", const=list(FLAWS), dest="fix", help="mend all three")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    model = network()
    if world > 1:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    loader = batches(options.steps * ACCUMULATED * BATCH, "input" in options.fix)
    began_s = time.monotonic()
    for number, (samples, labels) in enumerate(loader, start=1):
        is_last = number % ACCUMULATED == 0
        with exchange(model, is_last, world > 1 and "gradients" in options.fix):
            loss = functional.cross_entropy(model(samples), labels) / ACCUMULATED
            loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                log(model, number // ACCUMULATED, options.steps, loss.item() * ACCUMULATED, "logging" in options.fix)
    if rank == 0:
        print(f"done: {options.steps} steps of {(time.monotonic() - began_s) / options.steps * 1e3:.0f} ms")
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
