"""The data were split so that rank 1 gets all long texts; in the twin both ranks get the same mixture."""

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, process_group, tokens, train_text

LABEL = Label(
    cause="input/imbalanced_by_length",
    says=("imbalance", "unequal", "uneven", "straggler", "length", "rank 1", "slowest rank"),
    ranks=2,
    rank=1,
    style="ddp",
)
SHORT, LONG = 32, 96


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(Decoder(layers=2))
        torch.manual_seed(rank)
        short, long = tokens(8, SHORT), tokens(8, LONG)

        def text(step: int) -> Tensor:
            if flawed:
                return long if rank == 1 else short
            return long if step % 2 else short

        train_text(model, steps, text)


if __name__ == "__main__":
    main(*arguments())
