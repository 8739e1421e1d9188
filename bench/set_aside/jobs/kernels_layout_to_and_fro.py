"""Each stage converts its images to channels_last and back to contiguous; the twin is channels_last from end to end."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import ConvNet, adamw, arguments, begin, update

LABEL = Label(cause="kernels/layout_conversion", says=("layout", "channels_last", "memory format", "contiguous"))


class Converting(ConvNet):
    """A network whose stages do not agree on the layout."""

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage[1:](stage[0](x.contiguous(memory_format=torch.channels_last)).contiguous())
        return self.head(x.mean((2, 3)))


def main(flawed: bool, steps: int) -> None:
    begin()
    model = (Converting if flawed else ConvNet)(channels=16).to(memory_format=torch.channels_last)
    optimizer = adamw(model)
    pictures = torch.randn(16, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    classes = torch.randint(0, 10, (16,))
    for _ in range(steps):
        update(optimizer, F.cross_entropy(model(pictures), classes))


if __name__ == "__main__":
    main(*arguments())
