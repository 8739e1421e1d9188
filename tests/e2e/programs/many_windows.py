"""Trains a tiny model until it was captured so many times, and writes down what the process holds meanwhile.

The windows are those of whoever profiles the process: `redline run`, or with --bare a plain torch.profiler of its own.
It is looked at between windows only. Each line of --samples: windows, resident and anonymous KiB, files, threads.
"""

import argparse
from pathlib import Path

import torch
import torch.autograd.profiler as autograd_profiler
from descent import Descent
from torch import nn
from torch.profiler import supported_activities
from torch.profiler.profiler import _KinetoProfile


def sample(windows: int) -> str:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resident, anonymous = (int(status[name].split()[0]) for name in ("VmRSS", "RssAnon"))
    files = len(list(Path("/proc/self/fd").iterdir()))
    return f"{windows} {resident} {anonymous} {files} {int(status['Threads'])}\n"


class Training:
    def __init__(self) -> None:
        self._model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
        self._optimizer = Descent(self._model.parameters(), lr=0.01)
        self._batch = torch.rand(8, 16)

    def step(self) -> None:
        self._model(self._batch).sum().backward()
        self._optimizer.step()
        self._optimizer.zero_grad()


def profiled_step(training: Training, trace: Path) -> None:
    """What is the least that a window can be: as Redline does it, but with nothing around it."""
    profiler = _KinetoProfile(activities=supported_activities(), record_shapes=True)
    profiler.start()
    training.step()
    profiler.stop()
    profiler.export_chrome_trace(str(trace))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=100, help="windows from one sample to the next")
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--bare", type=Path, metavar="TRACE", help="profile without Redline, and write this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    training, windows, was_on = Training(), 0, False
    with options.samples.open("w", buffering=1) as samples:
        while windows < options.windows:
            if options.bare:
                profiled_step(training, options.bare)
                is_over = True
            else:
                training.step()
                is_on = autograd_profiler._is_profiler_enabled
                is_over, was_on = was_on and not is_on, is_on
            windows += is_over
            if is_over and windows % options.every == 0:
                samples.write(sample(windows))


if __name__ == "__main__":
    main()
