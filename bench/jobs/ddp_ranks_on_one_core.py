"""Both ranks are pinned to the same core; the twin gives each its own."""

import os

from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, local_rank, process_group, tokens

LABEL = Label(cause="machine/ranks_share_a_core", says=("core", "affinity", "pinned", "CPU time"), ranks=2, style="ddp")


def main(flawed: bool, steps: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0] if flawed else cores[local_rank() % len(cores)]})
    with process_group():
        model = DistributedDataParallel(LM(), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens()
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
