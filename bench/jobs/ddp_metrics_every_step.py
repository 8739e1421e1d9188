"""Forty metrics are all-reduced and read one by one in every step; the twin does so every thousand steps."""

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="communication/metrics_reduced_every_step",
    says=("metric", "small all-reduce", "tiny", ".item"),
    ranks=2,
    style="ddp",
)


def main(flawed: bool, steps: int) -> None:
    every = 1 if flawed else 1000
    with process_group():
        model = DistributedDataParallel(LM(), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens()
        for step in range(1, steps + 1):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == 0:
                shown = []
                for number in range(40):
                    metric = loss.detach() * number
                    dist.all_reduce(metric)
                    shown.append(metric.item() / 2)


if __name__ == "__main__":
    main(*arguments())
