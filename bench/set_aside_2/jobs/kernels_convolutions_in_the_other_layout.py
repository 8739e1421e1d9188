"""Images lie channel by channel and each block copies them for its norm and back; in the twin channels lie together."""

import torch
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin, train

LABEL = Label(
    cause="kernels/layout_conversions",
    says=("channels_last", "layout", "contiguous", "permute", "transpose", "cop"),
)
CHANNELS = 128


class Block(nn.Module):
    """A convolution per channel, then a norm and two layers over the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.spatial = nn.Conv2d(CHANNELS, CHANNELS, 5, padding=2, groups=CHANNELS)
        self.norm = nn.LayerNorm(CHANNELS)
        self.mix = nn.Sequential(nn.Linear(CHANNELS, 2 * CHANNELS), nn.GELU(), nn.Linear(2 * CHANNELS, CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm(self.spatial(x).permute(0, 2, 3, 1).contiguous())
        return x + self.mix(inner).permute(0, 3, 1, 2)


class Net(nn.Module):
    """Three such blocks."""

    def __init__(self, layout: torch.memory_format) -> None:
        super().__init__()
        self.layout = layout
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x).contiguous(memory_format=self.layout)
        return self.head(x.mean((2, 3)))


def main(flawed: bool, steps: int) -> None:
    begin()
    layout = torch.contiguous_format if flawed else torch.channels_last
    data = torch.randn(8, CHANNELS, 16, 16).contiguous(memory_format=layout), torch.randint(10, (8,))
    train(Net(layout).to(memory_format=layout), steps, lambda _: data)


if __name__ == "__main__":
    main(*arguments())
