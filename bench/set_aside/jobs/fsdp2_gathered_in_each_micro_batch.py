"""Parameters are gathered and gradients scattered in each of four micro-batches; the twin keeps parameters and scatters once."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from bench.label import Label
from bench.set_aside.common import (
    Decoder,
    adamw,
    arguments,
    begin,
    next_token_loss,
    process_group,
    reduce_by_sums,
    tokens,
)

LABEL = Label(
    cause="communication/regathered_parameters",
    says=("reshard_after_forward", "micro-batch", "microbatch", "accumulat", "gather", "set_requires_gradient_sync"),
    ranks=2,
    style="fsdp2",
)
MICRO = 4


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        mesh = init_device_mesh("cpu", (2,))
        model = Decoder(layers=3)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=flawed)
        model = fully_shard(model, mesh=mesh, reshard_after_forward=flawed)
        reduce_by_sums(model)
        optimizer = adamw(model)
        torch.manual_seed(rank)
        data = [tokens(2, 32) for _ in range(MICRO)]
        for _ in range(steps):
            for number, text in enumerate(data):
                last = number == MICRO - 1
                model.set_requires_gradient_sync(flawed or last)
                model.set_reshard_after_backward(flawed or last)
                (next_token_loss(model(text), text) / MICRO).backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
