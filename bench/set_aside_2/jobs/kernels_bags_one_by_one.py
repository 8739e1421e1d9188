"""Bags of instances go through the network one after another; the twin sends the instances of all bags at once."""

import torch
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin, residual_mlp, train

LABEL = Label(
    cause="kernels/loop_over_samples",
    says=("loop", "one by one", "batch", "sample", "small", "same operator"),
)
BAGS, INSTANCES, SIZE = 48, 12, 384


class Pooled(nn.Module):
    """Means over each bag of what the network makes of its instances."""

    def __init__(self, flawed: bool) -> None:
        super().__init__()
        self.flawed = flawed
        self.network = residual_mlp(SIZE, SIZE, 3, 64)

    def forward(self, bags: Tensor) -> Tensor:
        if self.flawed:
            return torch.stack([self.network(bag).mean(0) for bag in bags])
        return self.network(bags.flatten(0, 1)).unflatten(0, bags.shape[:2]).mean(1)


def main(flawed: bool, steps: int) -> None:
    begin()
    data = torch.randn(BAGS, INSTANCES, SIZE), torch.randint(64, (BAGS,))
    train(Pooled(flawed), steps, lambda _: data)


if __name__ == "__main__":
    main(*arguments())
