"""FSDP2 shards every linear layer and norm on its own, with a collective for each; the twin shards block by block."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="communication/fine_wrapping",
    says=("wrap", "fully_shard", "small collectives", "all-gather"),
    ranks=2,
    style="fsdp2",
)


def main(flawed: bool, steps: int) -> None:
    with process_group():
        mesh = init_device_mesh("cpu", (2,))
        model = LM(width=192, layers=4)
        for block in model.blocks:
            if flawed:
                for module in list(block.modules()):
                    if isinstance(module, (nn.Linear, nn.LayerNorm)):
                        fully_shard(module, mesh=mesh, reshard_after_forward=False)
            fully_shard(block, mesh=mesh, reshard_after_forward=False)
        fully_shard(model, mesh=mesh)
        optimizer, batch = adamw(model), tokens(4)
        torch.manual_seed(0)
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
