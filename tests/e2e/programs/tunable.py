"""A tiny training job that waits for nothing in every step, with ways around it that are right, wrong or broken."""

import argparse
import subprocess
import time
from collections.abc import Iterator

import torch
from descent import Descent
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import redline

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--nap-ms", type=float, default=3.0)
parser.add_argument("--writes")
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(4096, 16), torch.randn(4096, 1))
model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = Descent(model.parameters(), lr=1e-3)
left = False


def batches() -> Iterator[list[torch.Tensor]]:
    while True:
        yield from DataLoader(data, batch_size=4)


for step, (inputs, targets) in zip(range(options.steps), batches(), strict=False):
    is_wrong, leaves = redline.switch("wrong"), redline.switch("leaves")
    if redline.switch("breaks"):
        raise RuntimeError("this way does not work")
    if leaves and not left:
        left = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL).pid > 0
    for is_spared in (redline.switch("right"), is_wrong, leaves):
        time.sleep(0.0 if is_spared else options.nap_ms / 1e3)
    loss = ((model(inputs) - targets) ** 2).mean()
    optimizer.zero_grad()
    (1.5 * loss if is_wrong else loss).backward()
    optimizer.step()
    if options.writes and step == 5:
        with open(options.writes, "w") as file:  # noqa: PTH123
            file.write("x")
