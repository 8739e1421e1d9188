"""Both ranks prepare their batches in Python between the steps; the twin's batches are prepared before."""

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group

LABEL = Label(
    cause="input/loaded_in_training_process",
    says=("num_workers", "DataLoader", "data loader", "training process"),
    ranks=2,
    style="ddp",
)


def prepared(index: int) -> Tensor:
    """Token ids from characters, one at a time."""
    state, ids = index + 1, []
    for _ in range(65 * 600):
        state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
        ids.append(state % 1024)
    return torch.tensor(ids[:65])


class Texts(Dataset[Tensor]):
    def __init__(self, count: int, ready: bool) -> None:
        self.rows = [prepared(index) for index in range(8)] if ready else None
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return prepared(index) if self.rows is None else self.rows[index % 8]


def main(flawed: bool, steps: int) -> None:
    with process_group():
        model = DistributedDataParallel(LM(), gradient_as_bucket_view=True)
        optimizer = adamw(model)
        for batch in DataLoader(Texts(4 * steps, ready=not flawed), batch_size=4):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
