"""Autograd's anomaly detection was left on after a bug hunt; the twin runs without it."""

import torch
import torch.nn.functional as F
from torch import nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, update

LABEL = Label(cause="host/debug_switch", says=("anomaly", "debug"))


def main(flawed: bool, steps: int) -> None:
    begin()
    torch.autograd.set_detect_anomaly(flawed)
    model = nn.Sequential(*(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 96), nn.SiLU()) for _ in range(40)))
    optimizer = adamw(model)
    inputs, targets = torch.randn(256, 96), torch.randn(256, 96)
    for _ in range(steps):
        update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
