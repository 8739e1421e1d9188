"""The second of two pipeline stages has five of the six blocks; in the twin each stage has three."""

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional as F

from bench.common import Block, Label, adamw, arguments, process_group

LABEL = Label(
    cause="communication/unequal_pipeline_stages",
    says=("stage", "Rank 1", "rank 1", "unequal", "balance"),
    ranks=2,
    rank=1,
    style="pp",
)


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        layers = nn.Sequential(*(Block(256) for _ in range((1, 5)[rank] if flawed else 3)))
        stage = PipelineStage(layers, rank, 2, torch.device("cpu"))
        schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=F.mse_loss)
        optimizer = adamw(layers)
        inputs, wanted = torch.randn(8, 32, 256), torch.randn(8, 32, 256)
        for _ in range(steps):
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(inputs)
            else:
                schedule.step(target=wanted)
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
