"""Tensor parallelism gathers the full output after each linear layer; the twin pairs column-wise with row-wise."""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from bench.common import Label, adamw, arguments, process_group

LABEL = Label(
    cause="communication/tensor_parallel_gathers",
    says=("tensor parallel", "tensor-parallel", "RowwiseParallel", "all-gather", "row-wise"),
    ranks=2,
    style="tp",
)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(nn.functional.gelu(self.up(x)))
        return out


def main(flawed: bool, steps: int) -> None:
    with process_group():
        mesh = init_device_mesh("cpu", (2,))
        torch.manual_seed(0)
        model = nn.Sequential(*(Mlp() for _ in range(4)))
        gathered = ColwiseParallel(output_layouts=Replicate())
        for mlp in model:
            plan: dict[str, ParallelStyle] = {"up": ColwiseParallel(), "down": RowwiseParallel()}
            if flawed:
                plan = {"up": gathered, "down": gathered}
            parallelize_module(mlp, mesh, plan)
        optimizer, inputs = adamw(model), torch.randn(384, 256)
        for _ in range(steps):
            loss = model(inputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
