"""Both layers of each tensor-parallel MLP are split by columns and gathered; the twin splits columns, then rows, and reduces once."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, process_group, update

LABEL = Label(
    cause="communication/tensor_parallel_gathers",
    says=("tensor parallel", "RowwiseParallel", "all-gather", "all_gather", "gather", "collective"),
    ranks=2,
    style="tp",
)
WIDTH, ROWS = 96, 1024


class Layer(nn.Module):
    """An MLP with a wide middle."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 8 * WIDTH, bias=False), nn.Linear(8 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.relu(self.up(x)))


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group():
        mesh = init_device_mesh("cpu", (2,))
        model = nn.Sequential(*(Layer() for _ in range(3)))
        for layer in model:
            gathered = ColwiseParallel(output_layouts=Replicate())
            plan = (
                {"up": gathered, "down": gathered} if flawed else {"up": ColwiseParallel(), "down": RowwiseParallel()}
            )
            parallelize_module(layer, mesh, plan)
        optimizer = adamw(model)
        inputs, targets = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
        for _ in range(steps):
            update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
