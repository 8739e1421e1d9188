"""Inference records a graph for a backward pass that never comes and keeps every activation; the twin is in inference_mode."""

import torch
from torch import nn

from bench.label import Label
from bench.set_aside.common import arguments, begin

LABEL = Label(
    cause="serving/gradient_mode", says=("inference_mode", "no_grad", "gradient", "autograd"), kind="inference"
)


def main(flawed: bool, steps: int) -> None:
    begin()
    layers = [nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(10)]
    model = nn.Sequential(nn.Conv2d(3, 8, 1), *layers).eval()
    pictures = torch.randn(2, 3, 256, 256)
    for _ in range(steps):
        with torch.inference_mode(not flawed):
            model(pictures).mean()


if __name__ == "__main__":
    main(*arguments())
