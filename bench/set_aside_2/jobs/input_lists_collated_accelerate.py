"""Rows are lists of floats that become tensors when batches are put together; in the twin rows are tensors already."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import DataLoader

from bench.set_aside_2.common import Label, adamw, arguments, begin, residual_mlp

LABEL = Label(
    cause="input/slow_collate",
    says=("collate", "list", "loader", "num_workers", "worker"),
    style="accelerate",
)
BATCH, COLUMNS = 256, 1536


def collate(rows: list[tuple[list[float] | Tensor, int]]) -> tuple[Tensor, Tensor]:
    """One tensor of all rows, one of their classes."""
    features = torch.stack([torch.as_tensor(row, dtype=torch.float32) for row, _ in rows])
    return features, torch.tensor([kind for _, kind in rows])


def main(flawed: bool, steps: int) -> None:
    begin()
    table = torch.randn(2 * BATCH, COLUMNS)
    features: list[list[float]] | list[Tensor] = table.tolist() if flawed else list(table)
    rows = [(features[n % len(features)], n % 32) for n in range(BATCH * steps)]
    accelerator = Accelerator(cpu=True)
    model = residual_mlp(COLUMNS, 256, 4, 32)
    model, optimizer, loader = accelerator.prepare(
        model,
        adamw(model),
        DataLoader(rows, BATCH, collate_fn=collate),  # type: ignore[arg-type]
    )
    for inputs, targets in loader:
        accelerator.backward(F.cross_entropy(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
