"""An LSTM as a Python loop over time with one small operator per gate; the twin is nn.LSTM."""

import torch
from torch import Tensor, nn

from bench.common import Label, adamw, arguments

LABEL = Label(cause="host/tiny_operators", says=("small operators", "tiny", "fuse", "torch.compile", "dispatch"))


class Own(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.x = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.h = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, sequence: Tensor) -> tuple[Tensor, None]:
        h = c = torch.zeros_like(sequence[0])
        outputs = []
        for now in sequence:
            i, f, g, o = (a(now) + b(h) for a, b in zip(self.x, self.h, strict=False))
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs), None


def main(flawed: bool, steps: int) -> None:
    model = Own(192) if flawed else nn.LSTM(192, 192)
    optimizer, sequence = adamw(model), torch.randn(64, 12, 192)
    for _ in range(steps):
        loss = model(sequence)[0].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
