"""fully_shard wraps every small layer, so each is gathered on its own; the twin wraps whole blocks."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, process_group, reduce_by_sums, train_text

LABEL = Label(
    cause="communication/fine_sharding",
    says=("fully_shard", "wrap", "small collective", "all-gather", "all_gather", "small"),
    ranks=2,
    style="fsdp2",
)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        mesh = init_device_mesh("cpu", (2,))
        model = Decoder(layers=3, width=128)
        for block in model.blocks:
            if flawed:
                for layer in block.modules():
                    if isinstance(layer, nn.Linear | nn.LayerNorm):
                        fully_shard(layer, mesh=mesh)
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        reduce_by_sums(model)
        torch.manual_seed(rank)
        train_text(model, steps)


if __name__ == "__main__":
    main(*arguments())
