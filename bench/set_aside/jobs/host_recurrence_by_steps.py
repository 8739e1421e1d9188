"""A recurrent cell is spelled out gate by gate for each time step; the twin is nn.LSTM."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, update

LABEL = Label(
    cause="host/tiny_operators",
    says=("small operator", "tiny", "many operators", "overhead", "LSTM", "torch.compile", "loop"),
)
WIDTH, LENGTH, BATCH = 96, 96, 16


class HandCell(nn.Module):
    """An LSTM with a layer per gate and per input."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.of_state = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        hidden = cell = x.new_zeros(x.shape[0], WIDTH)
        outputs = []
        for place in range(x.shape[1]):
            i, f, g, o = (a(x[:, place]) + b(hidden) for a, b in zip(self.of_input, self.of_state, strict=True))
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class Library(nn.Module):
    """The same as one call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0]


def main(flawed: bool, steps: int) -> None:
    begin()
    model = HandCell() if flawed else Library()
    optimizer = adamw(model)
    inputs, targets = torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)
    for _ in range(steps):
        update(optimizer, F.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
