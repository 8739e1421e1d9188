"""The first pipeline stage holds six of eight blocks; in the twin each stage holds four."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from bench.label import Label
from bench.set_aside.common import Block, adamw, arguments, begin, process_group

LABEL = Label(
    cause="communication/unequal_stages",
    says=("stage", "pipeline", "balance", "unequal", "uneven"),
    ranks=2,
    rank=0,
    style="pp",
)
BLOCKS, MICRO, WIDTH = 8, 6, 96


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        first = 6 if flawed else 4
        part = nn.Sequential(*(Block(WIDTH) for _ in range(first if rank == 0 else BLOCKS - first)))
        stage = PipelineStage(part, rank, 2, torch.device("cpu"))
        schedule = Schedule1F1B(stage, MICRO, loss_fn=F.mse_loss)
        optimizer = adamw(part)
        inputs, targets = torch.randn(MICRO * 2, 64, WIDTH), torch.randn(MICRO * 2, 64, WIDTH)
        for _ in range(steps):
            if rank == 0:
                schedule.step(inputs)
            else:
                schedule.step(target=targets)
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
