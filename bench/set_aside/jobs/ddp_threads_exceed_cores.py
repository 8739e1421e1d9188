"""Each of two ranks starts eight compute threads on two cores; the twin gives each rank one thread."""

import torch
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, process_group, train_text

LABEL = Label(
    cause="machine/oversubscribed_cores",
    says=("thread", "OMP_NUM_THREADS", "oversubscri", "cores"),
    ranks=2,
    style="ddp",
)


def main(flawed: bool, steps: int) -> None:
    begin()
    torch.set_num_threads(8 if flawed else 1)
    with process_group() as rank:
        torch.manual_seed(rank)
        train_text(DistributedDataParallel(Decoder(layers=2, width=128)), steps)


if __name__ == "__main__":
    main(*arguments())
