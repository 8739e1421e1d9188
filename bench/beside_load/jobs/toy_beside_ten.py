"""A toy is trained while ten threads of others want to run; in the twin the machine is its own."""

import subprocess
import sys

import torch
from torch.nn import functional as F

from bench.common import Label, adamw, arguments, tower

LABEL = Label(cause="machine/cores_taken_by_others", says=("other processes", "core"))
OTHER = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(20_000))"


def main(flawed: bool, steps: int) -> None:
    others = [subprocess.Popen([sys.executable, "-I", "-S", "-c", OTHER]) for _ in range(10 if flawed else 0)]
    model, inputs, targets = tower(256, 6), torch.randn(64, 256), torch.randint(0, 256, (64,))
    optimizer = adamw(model)
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for other in others:
        other.kill()
        other.wait()


if __name__ == "__main__":
    main(*arguments())
