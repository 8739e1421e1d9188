"""DDP broadcasts the large mask buffers of each block in every step; the twin has broadcast_buffers=False."""

import torch
from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(cause="communication/buffer_broadcasts", says=("broadcast_buffers", "buffers"), ranks=2, style="ddp")


def main(flawed: bool, steps: int) -> None:
    with process_group():
        net = LM()
        for block in net.blocks:
            block.register_buffer("mask", torch.ones(2304, 2304).tril())
        model = DistributedDataParallel(net, broadcast_buffers=flawed, gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens(4)
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
