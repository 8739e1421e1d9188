"""One thread where there are more cores; the twin uses all cores."""

import os

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="machine/too_few_threads", says=("threads", "OMP_NUM_THREADS", "cores"))


def main(flawed: bool, steps: int) -> None:
    torch.set_num_threads(1 if flawed else len(os.sched_getaffinity(0)))
    model = LM(width=384)
    optimizer, batch = adamw(model), tokens(8)
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
