"""find_unused_parameters=True though all are used: the graph is walked, all outputs are copied; the twin has False."""

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bench.common import Label, adamw, arguments, process_group

LABEL = Label(
    cause="communication/find_unused_parameters",
    says=("find_unused_parameters", "unused parameters"),
    ranks=2,
    style="ddp",
)


class DeepSupervision(nn.Module):
    """Gives the output of each of its layers, for one loss each."""

    def __init__(self) -> None:
        super().__init__()
        self.shifts = nn.ParameterList(torch.zeros(32) for _ in range(8))

    def forward(self, x: Tensor) -> list[Tensor]:
        outputs = []
        for shift in self.shifts:
            x = x + shift
            outputs.append(x)
        return outputs


def main(flawed: bool, steps: int) -> None:
    with process_group():
        model = DistributedDataParallel(DeepSupervision(), find_unused_parameters=flawed, gradient_as_bucket_view=True)
        optimizer, pixels = adamw(model), torch.randn(131_072, 32)
        for _ in range(steps):
            loss = torch.stack([output.mean() for output in model(pixels)]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
