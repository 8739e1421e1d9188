"""Inference records a graph for gradients that nobody wants; the twin runs in inference_mode."""

import contextlib

import torch

from bench.common import Label, arguments, tower

LABEL = Label(
    cause="serving/gradients_recorded", says=("inference_mode", "no_grad", "autograd", "gradient"), kind="inference"
)


def main(flawed: bool, steps: int) -> None:
    model, images = tower(64, 200).eval(), torch.randn(1024, 64)
    with contextlib.nullcontext() if flawed else torch.inference_mode():
        for _ in range(steps):
            model(images)


if __name__ == "__main__":
    main(*arguments())
