"""The data came from NumPy as float64 and the model was made double to fit; the twin computes in float32."""

import torch
from torch import nn
from torch.nn import functional as F

from bench.common import Label, adamw, arguments

LABEL = Label(cause="kernels/fp64", says=("float64", "fp64", "double"))


def main(flawed: bool, steps: int) -> None:
    dtype = torch.float64 if flawed else torch.float32
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 16)).to(
        dtype
    )
    optimizer = adamw(model)
    inputs, classes = torch.randn(256, 512, dtype=dtype), torch.randint(0, 16, (256,))
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
