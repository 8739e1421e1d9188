"""bucket_cap_mb is so small that nearly each parameter is exchanged alone; the twin has the default of 25 MB. Four ranks."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, process_group, update

LABEL = Label(cause="communication/tiny_buckets", says=("bucket",), ranks=4, style="ddp")


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        layers = [nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 96), nn.GELU()) for _ in range(32)]
        model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.001 if flawed else 25)
        optimizer = adamw(model)
        torch.manual_seed(rank)
        inputs, targets = torch.randn(192, 96), torch.randn(192, 96)
        for _ in range(steps):
            update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
