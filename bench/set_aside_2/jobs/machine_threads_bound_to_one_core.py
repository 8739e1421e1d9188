"""The process is bound to one core before it starts a thread for each core of the machine; the twin is not bound."""

import os

import torch

from bench.set_aside_2.common import Encoder, Label, arguments, begin, patches, train

LABEL = Label(
    cause="machine/oversubscribed_cores",
    says=("core", "affinity", "thread", "oversubscri", "taskset"),
)


def main(flawed: bool, steps: int) -> None:
    begin()
    cores = sorted(os.sched_getaffinity(0))
    if flawed:
        os.sched_setaffinity(0, cores[:1])
    torch.set_num_threads(len(cores))
    data = patches(8, 64, 256)
    train(Encoder(256, layers=2), steps, lambda _: data)


if __name__ == "__main__":
    main(*arguments())
