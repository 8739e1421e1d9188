"""Gradients are all-reduced parameter by parameter once the backward pass is over; the twin is DistributedDataParallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, process_group

LABEL = Label(
    cause="communication/all_reduce_after_backward",
    says=("after the backward", "overlap", "DistributedDataParallel", "bucket", "all-reduce", "all_reduce", "exposed"),
    ranks=2,
    style="plain",
)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model: nn.Module = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(40)))
        if not flawed:
            model = DistributedDataParallel(model)
        optimizer = adamw(model)
        torch.manual_seed(rank)
        inputs, targets = torch.randn(128, 128), torch.randn(128, 128)
        for _ in range(steps):
            F.mse_loss(model(inputs), targets).backward()
            if flawed:
                for p in model.parameters():
                    dist.all_reduce(p.grad)
                    p.grad /= dist.get_world_size()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
