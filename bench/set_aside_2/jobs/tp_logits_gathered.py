"""Each rank gathers the scores of all words from the other before the loss; in the twin the loss works on the parts."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

from bench.set_aside_2.common import Label, arguments, begin, process_group

LABEL = Label(
    cause="communication/tensor_parallel_gathers",
    says=("gather", "logits", "loss_parallel", "tensor parallel", "Replicate"),
    ranks=2,
    style="tp",
)
WIDTH, WORDS, ROWS = 192, 16_000, 512


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group():
        mesh = init_device_mesh("cpu", (2,))
        model = nn.Sequential(
            nn.Linear(WIDTH, 8 * WIDTH), nn.GELU(), nn.Linear(8 * WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)
        )
        head = ColwiseParallel(output_layouts=Replicate() if flawed else Shard(-1), use_local_output=flawed)
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel(), "3": head})
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        inputs, targets = torch.randn(ROWS, WIDTH), torch.randint(WORDS, (ROWS,))
        for _ in range(steps):
            with nullcontext() if flawed else loss_parallel():
                F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
