"""Rank 0 of four writes a checkpoint every fourth step while the others wait; the twin does so every 1000 steps."""

import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="host/checkpoint_saved_often",
    says=("checkpoint", "save", "Rank 0", "rank 0"),
    ranks=4,
    rank=0,
    pattern="every 4 steps",
    style="ddp",
)


def main(flawed: bool, steps: int) -> None:
    every = 4 if flawed else 1000
    with process_group() as rank, tempfile.TemporaryDirectory() as folder:
        net = LM(width=256, layers=4)
        model = DistributedDataParallel(net, gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens(1, 33)
        for step in range(1, steps + 1):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == 0:
                if rank == 0:
                    with pathlib.Path(f"{folder}/last.pt").open("wb") as file:
                        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
                        file.flush()
                        os.fsync(file.fileno())
                dist.barrier()


if __name__ == "__main__":
    main(*arguments())
