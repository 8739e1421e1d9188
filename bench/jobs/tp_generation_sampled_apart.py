"""Tensor-parallel ranks agree on each token of each row by its own broadcast; the twin broadcasts the batch at once."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from bench.common import LM, Block, Label, arguments, process_group, tokens

LABEL = Label(
    cause="communication/many_small_broadcasts",
    says=("broadcast", "small collectives", "one by one", "coalesce"),
    ranks=2,
    kind="generation",
    style="tp",
)


def main(flawed: bool, steps: int) -> None:
    with process_group():
        torch.manual_seed(0)
        mesh = init_device_mesh("cpu", (2,))
        model = LM(width=512, layers=4, context=128).eval()
        for block in model.blocks:
            assert isinstance(block, Block)
            parallelize_module(block.mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        batch = tokens(64, 8)
        caches, new, start = model.caches(64), batch, 0
        with torch.no_grad():
            for _ in range(steps):
                logits = model(new, caches, start)[:, -1]
                start += new.shape[1]
                new = torch.multinomial(logits.softmax(-1), 1)
                for part in new if flawed else [new]:
                    dist.broadcast(part, 0)


if __name__ == "__main__":
    main(*arguments())
