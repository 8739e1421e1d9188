"""The last of four ranks looks for hard examples with an extra pass before each step; in the twin nobody does."""

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, patches, process_group, update

LABEL = Label(
    cause="host/one_rank_does_more",
    says=("rank 3", "rank", "straggler", "longer", "late"),
    ranks=4,
    rank=3,
    style="ddp",
)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(Encoder(192, width=192, layers=1))
        optimizer = adamw(model)
        torch.manual_seed(rank)
        pool, kinds = patches(84, 48, 192)
        for step in range(steps):
            first = step % 4 * 12
            chosen = torch.arange(first, first + 12)
            if flawed and rank == 3:
                with torch.no_grad():
                    chosen = F.cross_entropy(model.module(pool), kinds, reduction="none").topk(12).indices
            update(optimizer, F.cross_entropy(model(pool[chosen]), kinds[chosen]))


if __name__ == "__main__":
    main(*arguments())
