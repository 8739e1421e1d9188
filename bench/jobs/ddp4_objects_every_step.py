"""Four ranks gather pickled metrics and meet at two barriers in every step; the twin does so every thousand steps."""

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="communication/barriers_and_objects_every_step",
    says=("barrier", "all_gather_object", "metric", "small collectives"),
    ranks=4,
    style="ddp",
)


def main(flawed: bool, steps: int) -> None:
    every = 1 if flawed else 1000
    with process_group() as rank:
        model = DistributedDataParallel(LM(width=192, layers=2), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens(2)
        for step in range(1, steps + 1):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == 0:
                for name in ("loss", "accuracy", "tokens", "perplexity"):
                    rows: list[object] = [None] * 4
                    dist.barrier()
                    dist.all_gather_object(rows, {"name": name, "rank": rank, "value": loss.item()})
                    dist.barrier()


if __name__ == "__main__":
    main(*arguments())
