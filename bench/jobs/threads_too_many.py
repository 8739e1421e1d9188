"""Sixteen threads on a machine with fewer cores; the twin uses as many threads as there are cores."""

import os

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="machine/too_many_threads", says=("threads", "OMP_NUM_THREADS", "oversubscri"))


def main(flawed: bool, steps: int) -> None:
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(8 * cores if flawed else cores)
    model = LM()
    optimizer, batch = adamw(model), tokens(8)
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
