"""Each block of a convolutional model converts to channels-last and back; the twin stays in channels-last."""

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.common import ConvNet, Label, adamw, arguments

LABEL = Label(cause="kernels/layout_conversions", says=("channels_last", "channels-last", "layout", "memory_format"))


class Converting(ConvNet):
    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for block in self.body:
            x = block(x.contiguous(memory_format=torch.channels_last))
            x = x.contiguous(memory_format=torch.contiguous_format)
        out: Tensor = self.head(x.mean((2, 3)))
        return out


def main(flawed: bool, steps: int) -> None:
    model = Converting(width=16, blocks=6) if flawed else ConvNet(width=16, blocks=6)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = adamw(model)
    images = torch.randn(16, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    classes = torch.randint(0, 10, (16,))
    for _ in range(steps):
        loss = F.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
