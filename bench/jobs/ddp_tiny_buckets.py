"""DDP with buckets of 10 kB sends nearly every parameter alone; the twin keeps the default of 25 MB."""

import torch
from torch.nn.parallel import DistributedDataParallel

from bench.common import Label, adamw, arguments, process_group, tower

LABEL = Label(cause="communication/tiny_buckets", says=("bucket", "small all-reduce"), ranks=2, style="ddp")


def main(flawed: bool, steps: int) -> None:
    with process_group():
        model = DistributedDataParallel(
            tower(128, 80), bucket_cap_mb=0.01 if flawed else 25, gradient_as_bucket_view=True
        )
        optimizer, inputs = adamw(model), torch.randn(192, 128)
        for _ in range(steps):
            loss = model(inputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
