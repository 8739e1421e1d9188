"""Trains data parallel on gloo ranks; in step 6, one rank gets stuck for some seconds while the others wait for it."""

import argparse
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from descent import Descent, average_gradients
from torch import nn


def lose_time(seconds: float) -> None:
    time.sleep(seconds)


def stop(seconds: float) -> None:
    """Somebody else lets this process go on after a while."""
    wake = f"import os, time; time.sleep({seconds}); os.kill({os.getpid()}, {signal.SIGCONT})"
    subprocess.Popen([sys.executable, "-c", wake])
    os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("sleep", "stop"), required=True)
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = nn.Linear(16, 16)
    optimizer = Descent(model.parameters(), lr=0.01)
    for step in range(12):
        if step == 5 and dist.get_rank() == 1:
            {"sleep": lose_time, "stop": stop}[options.how](options.seconds)
        model(torch.randn(4, 16)).square().mean().backward()
        average_gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
