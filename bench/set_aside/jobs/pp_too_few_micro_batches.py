"""A pipeline of two stages gets its batch in one piece, so one stage always waits; the twin cuts it into six micro-batches."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from bench.label import Label
from bench.set_aside.common import Block, adamw, arguments, begin, process_group

LABEL = Label(
    cause="communication/pipeline_bubble",
    says=("micro-batch", "microbatch", "bubble", "pipeline"),
    ranks=2,
    style="pp",
)
BATCH, WIDTH = 12, 96


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        part = nn.Sequential(*(Block(WIDTH) for _ in range(4)))
        stage = PipelineStage(part, rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, 1 if flawed else 6, loss_fn=F.mse_loss)
        optimizer = adamw(part)
        inputs, targets = torch.randn(BATCH, 64, WIDTH), torch.randn(BATCH, 64, WIDTH)
        for _ in range(steps):
            if rank == 0:
                schedule.step(inputs)
            else:
                schedule.step(target=targets)
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
