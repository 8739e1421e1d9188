"""Centres that came from NumPy are doubles, so distances and exponentials are too; in the twin they are floats."""

import torch
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin, train

LABEL = Label(
    cause="kernels/float64",
    says=("float64", "double", "fp64", "float32"),
)
SIZE, CENTRES = 256, 768


class Radial(nn.Module):
    """A network of radial functions around fixed centres."""

    centres: Tensor

    def __init__(self, flawed: bool) -> None:
        super().__init__()
        centres = torch.randn(CENTRES, SIZE, dtype=torch.float64)
        self.register_buffer("centres", centres if flawed else centres.float())
        self.first, self.head = nn.Linear(SIZE, SIZE), nn.Linear(CENTRES, 64)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).to(self.centres.dtype)
        near = torch.addmm(self.centres.square().sum(1), x, self.centres.T, alpha=-2) + x.square().sum(1, keepdim=True)
        return self.head((near / -SIZE).exp().float())


def main(flawed: bool, steps: int) -> None:
    begin()
    data = torch.randn(1024, SIZE), torch.randint(64, (1024,))
    train(Radial(flawed), steps, lambda _: data)


if __name__ == "__main__":
    main(*arguments())
