"""Shared by the scripts here: which changes are on, arguments, the process group, and what they print."""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

REFERENCE = "reference"

_on: set[str] = set()
_asked: set[str] = set()


def arguments() -> tuple[int, int]:
    """Steps and seed; `--variant` switches changes on, by names with + between them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default=REFERENCE)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    _on.update(options.variant.split("+"))
    _on.discard(REFERENCE)
    torch.set_num_threads(2 if on("threads") else 1)
    return options.steps, options.seed


def on(*names: str) -> bool:
    """Whether one of these changes is on."""
    _asked.update(names)
    return not _on.isdisjoint(names)


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


@contextmanager
def process_group() -> Iterator[None]:
    """Join the ranks that torchrun started, over gloo."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield
    finally:
        time.sleep(0.05)  # gloo of torch 2.13 may hang at exit without it
        dist.destroy_process_group()


def generator(seed: int, step: int) -> torch.Generator:
    """Makes the data of a step."""
    return torch.Generator().manual_seed(100_003 * seed + step)


def say(line: str) -> None:
    """In one piece, as ranks share the output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show(step: int, loss: Tensor | float, name: str = "loss") -> None:
    say(f"rank {rank()} step {step} {name} {float(loss)!r}")


def finish(model: nn.Module) -> None:
    """Print a hash of all parameters and buffers, and end with an error if a change is on that no line asked for."""
    state = hashlib.sha256()
    for tensor in [*model.parameters(), *model.buffers()]:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        state.update(local.detach().double().contiguous().numpy().tobytes())
    say(f"rank {rank()} state {state.hexdigest()[:16]}")
    if _on - _asked:
        raise SystemExit(f"no change of this script is named {', '.join(sorted(_on - _asked))}")
