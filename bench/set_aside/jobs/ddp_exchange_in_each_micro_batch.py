"""Gradients are exchanged after each of four micro-batches; the twin uses no_sync for the first three."""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, process_group, tokens

LABEL = Label(
    cause="communication/exchange_each_micro_batch",
    says=("no_sync", "micro-batch", "microbatch", "accumulat"),
    ranks=2,
    style="ddp",
)
MICRO = 4


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(Decoder(layers=3))
        optimizer = adamw(model)
        torch.manual_seed(rank)
        data = [tokens(2, 32) for _ in range(MICRO)]
        for _ in range(steps):
            for number, text in enumerate(data):
                waits = flawed or number == MICRO - 1
                with nullcontext() if waits else model.no_sync():
                    (next_token_loss(model(text), text) / MICRO).backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
