"""Two ranks exchange gradients after each of eight micro-batches they accumulate; the twin does so after the last."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from bench.set_aside_2.common import Label, adamw, arguments, begin, process_group, residual_mlp

LABEL = Label(
    cause="communication/accumulation_without_no_sync",
    says=("no_sync", "accumul", "micro-batch"),
    ranks=2,
    style="ddp",
)
MICRO_BATCHES = 8


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(residual_mlp(512, 512, 6, 64))
        optimizer = adamw(model)
        torch.manual_seed(rank)
        inputs, targets = torch.randn(MICRO_BATCHES, 128, 512), torch.randint(64, (MICRO_BATCHES, 128))
        for _ in range(steps):
            for index in range(MICRO_BATCHES):
                is_last = index == MICRO_BATCHES - 1
                with nullcontext() if flawed or is_last else model.no_sync():
                    (F.cross_entropy(model(inputs[index]), targets[index]) / MICRO_BATCHES).backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
