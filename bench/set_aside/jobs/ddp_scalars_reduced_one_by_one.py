"""Each of 96 per-class counts is all-reduced on its own after every step; the twin reduces them as one tensor."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, process_group, tokens, update

LABEL = Label(
    cause="communication/blocking_small_all_reduces",
    says=("all-reduce", "all_reduce", "allreduce", "small collective", "coalesc"),
    ranks=2,
    style="ddp",
)
CLASSES = 96


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(Decoder(layers=1, width=128))
        optimizer = adamw(model)
        torch.manual_seed(rank)
        data = [tokens() for _ in range(4)]
        for step in range(steps):
            text = data[step % 4]
            update(optimizer, next_token_loss(model(text), text))
            counts = torch.bincount(text.flatten() % CLASSES, minlength=CLASSES).float()
            for count in counts if flawed else [counts]:
                dist.all_reduce(count)


if __name__ == "__main__":
    main(*arguments())
