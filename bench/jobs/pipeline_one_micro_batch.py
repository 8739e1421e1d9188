"""A pipeline of two stages gets one micro-batch, so one stage always waits; the twin cuts the batch into four."""

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional as F

from bench.common import Block, Label, adamw, arguments, process_group

LABEL = Label(cause="communication/pipeline_bubble", says=("pipeline", "micro-batch", "bubble"), ranks=2, style="pp")


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        layers = nn.Sequential(*(Block(256) for _ in range(2)))
        stage = PipelineStage(layers, rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=1 if flawed else 4, loss_fn=F.mse_loss)
        optimizer = adamw(layers)
        inputs, wanted = torch.randn(8, 64, 256), torch.randn(8, 64, 256)
        for _ in range(steps):
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(inputs)
            else:
                schedule.step(target=wanted)
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
