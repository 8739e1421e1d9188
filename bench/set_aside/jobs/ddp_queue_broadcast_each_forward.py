"""A queue of negatives held as a buffer is broadcast before each forward pass; the twin says broadcast_buffers=False."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, process_group, update

LABEL = Label(cause="communication/buffers_broadcast", says=("broadcast", "buffer"), ranks=2, style="ddp")
QUEUE, WIDTH = 65_536, 128


class Contrast(nn.Module):
    """An encoder with a queue as in MoCo, of which a step reads a part."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(WIDTH, 8, classes=WIDTH)
        self.register_buffer("queue", F.normalize(torch.randn(QUEUE, WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.encoder(x)) @ self.queue[:512].T


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(Contrast(), broadcast_buffers=flawed)
        optimizer = adamw(model)
        torch.manual_seed(rank)
        inputs, classes = torch.randn(512, WIDTH), torch.randint(0, 512, (512,))
        for _ in range(steps):
            update(optimizer, F.cross_entropy(model(inputs) / 0.1, classes))


if __name__ == "__main__":
    main(*arguments())
