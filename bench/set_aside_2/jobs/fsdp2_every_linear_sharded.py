"""Two ranks shard each linear layer and each norm alone, which makes many small gathers; the twin shards the whole."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from bench.set_aside_2.common import (
    Encoder,
    Label,
    adamw,
    arguments,
    begin,
    patches,
    process_group,
    reduce_by_sums,
    update,
)

LABEL = Label(
    cause="communication/fine_wrapping",
    says=("fully_shard", "wrap", "shard", "gather", "small"),
    ranks=2,
    style="fsdp2",
)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = Encoder(192, width=192, layers=2)
        small = [p for p in model.modules() if isinstance(p, nn.Linear | nn.LayerNorm)]
        for part in [*small, model] if flawed else [model]:
            fully_shard(part, reshard_after_forward=False)
        reduce_by_sums(model)
        optimizer = adamw(model)
        torch.manual_seed(rank)
        inputs, targets = patches(28, 64, 192)
        for _ in range(steps):
            update(optimizer, F.cross_entropy(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
