"""A loader with workers of its own is started for each shard of four batches; the twin has one for all shards."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, patches, update

LABEL = Label(
    cause="input/workers_respawned",
    says=("persistent_workers", "worker", "started", "loader", "epoch"),
    pattern="every 4 steps",
)
BATCH, SHARD = 4, 4


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Encoder(256, layers=2)
    optimizer = adamw(model)
    shards = [TensorDataset(*patches(BATCH * SHARD, 48, 256)) for _ in range(-(-steps // SHARD))]

    def learn(shard: torch.utils.data.Dataset[tuple[Tensor, ...]]) -> None:
        for inputs, kinds in DataLoader(shard, BATCH, num_workers=2):
            update(optimizer, F.cross_entropy(model(inputs), kinds))

    for shard in shards if flawed else [ConcatDataset(shards)]:
        learn(shard)


if __name__ == "__main__":
    main(*arguments())
