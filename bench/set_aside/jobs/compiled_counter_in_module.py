"""A Python counter kept in the compiled module changes in each step and forces compilation anew; the twin counts in a tensor."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, update

LABEL = Label(
    cause="host/recompilation", says=("recompil", "compiled again", "guard"), pattern="first steps", style="compiled"
)


class Warmed(nn.Module):
    """A model that fades its input in over the first thousand steps."""

    def __init__(self, in_python: bool) -> None:
        super().__init__()
        self.inner = mlp(256, 6)
        self.in_python, self.count = in_python, 0
        self.register_buffer("counted", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.in_python:
            self.count += 1
            return self.inner(x * (self.count / 1000))
        self.counted += 1
        return self.inner(x * (self.counted / 1000))


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Warmed(flawed)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = adamw(model)
    inputs, classes = torch.randn(256, 256), torch.randint(0, 10, (256,))
    for _ in range(steps):
        update(optimizer, F.cross_entropy(compiled(inputs), classes))


if __name__ == "__main__":
    main(*arguments())
