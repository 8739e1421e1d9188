"""Gradients are all-reduced one by one after the backward pass; the twin leaves that to DDP."""

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="communication/reduced_after_backward",
    says=("DistributedDataParallel", "overlap", "after the backward", "one by one"),
    ranks=2,
    style="ddp",
)


def main(flawed: bool, steps: int) -> None:
    with process_group():
        model: nn.Module = LM(width=192, layers=8, vocab=512)
        if not flawed:
            model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens(2, 65, vocab=512)
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            if flawed:
                for weight in model.parameters():
                    assert weight.grad is not None
                    dist.all_reduce(weight.grad)
                    weight.grad /= 2
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
