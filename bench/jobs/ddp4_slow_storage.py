"""The storage of rank 2 of four is slow (it waits, as for a network); in the twin it is as fast as the others."""

import time

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group

LABEL = Label(cause="input/slow_storage_of_one_rank", says=("Rank 2", "rank 2"), ranks=4, rank=2, style="ddp")


class Stored(Dataset[Tensor]):
    def __init__(self, count: int, wait: float) -> None:
        self.count, self.wait = count, wait

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        if self.wait:
            time.sleep(self.wait)
        return torch.randint(0, 1024, (65,))


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        model = DistributedDataParallel(LM(width=192, layers=2), gradient_as_bucket_view=True)
        optimizer = adamw(model)
        for batch in DataLoader(Stored(4 * steps, 0.02 if flawed and rank == 2 else 0), batch_size=4):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
