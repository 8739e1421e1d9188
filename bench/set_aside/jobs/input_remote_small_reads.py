"""Each sample is its own request to remote storage (here a wait of 6 ms); the twin asks for a whole batch at once."""

import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens, update

LABEL = Label(
    cause="input/storage_latency", says=("storage", "read", "worker", "loader", "data loading", "prefetch", "shard")
)
BATCH, ROUND_TRIP_S = 24, 0.006


class RemoteText(Dataset[Tensor]):
    """Text behind a network: what costs is the round trip, not the size."""

    def __init__(self, count: int, whole_batches: bool) -> None:
        self.text, self.count, self.whole_batches = tokens(64, 64), count, whole_batches

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(ROUND_TRIP_S)
        return self.text[index % 64]

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        if not self.whole_batches:
            return [self[index] for index in indices]
        time.sleep(ROUND_TRIP_S)
        return [self.text[index % 64] for index in indices]


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2, width=128)
    optimizer = adamw(model)
    source = RemoteText(BATCH * steps, whole_batches=not flawed)
    for text in DataLoader(source, batch_size=BATCH, num_workers=1, collate_fn=torch.stack):
        update(optimizer, next_token_loss(model(text), text))


if __name__ == "__main__":
    main(*arguments())
