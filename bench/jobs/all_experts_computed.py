"""A mixture of four experts runs each expert on all tokens and masks the rest; the twin sends each its own tokens."""

import torch
from torch import Tensor, nn

from bench.common import Label, adamw, arguments

LABEL = Label(cause="kernels/all_experts_computed", says=("expert", "grouped", "mask"))


class Experts(nn.Module):
    def __init__(self, flawed: bool) -> None:
        super().__init__()
        self.flawed, self.gate = flawed, nn.Linear(256, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        weight, choice = self.gate(x).softmax(-1).max(-1, keepdim=True)
        if self.flawed:
            outputs = [(choice == n) * weight * expert(x) for n, expert in enumerate(self.experts)]
            return x + torch.stack(outputs).sum(0)
        order = choice[:, 0].argsort()
        counts = torch.bincount(choice[:, 0], minlength=4).tolist()
        parts = [expert(part) for expert, part in zip(self.experts, x[order].split(counts), strict=False)]
        return x + weight * torch.cat(parts)[order.argsort()]


def main(flawed: bool, steps: int) -> None:
    model = nn.Sequential(Experts(flawed), Experts(flawed))
    optimizer, inputs = adamw(model), torch.randn(384, 256)
    for _ in range(steps):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
