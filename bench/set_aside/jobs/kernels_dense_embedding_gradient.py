"""A large table of which a batch touches few rows has dense gradients, and AdamW walks all of it; the twin has sparse gradients."""

import torch
import torch.nn.functional as F
from torch import nn

from bench.label import Label
from bench.set_aside.common import arguments, begin, mlp

LABEL = Label(cause="memory/dense_embedding_gradient", says=("embedding", "sparse"))
ROWS, WIDTH, BATCH = 120_000, 32, 1024


def main(flawed: bool, steps: int) -> None:
    begin()
    table, tower = nn.EmbeddingBag(ROWS, WIDTH, sparse=not flawed), mlp(WIDTH * 4, 4)
    grow = nn.Linear(WIDTH, WIDTH * 4)
    dense = [*tower.parameters(), *grow.parameters()]
    if flawed:
        optimizers: list[torch.optim.Optimizer] = [
            torch.optim.AdamW([*table.parameters(), *dense], lr=1e-3, fused=True)
        ]
    else:
        optimizers = [
            torch.optim.AdamW(dense, lr=1e-3, fused=True),
            torch.optim.SparseAdam(table.parameters(), lr=1e-3),
        ]
    items, classes = torch.randint(0, ROWS, (BATCH, 4)), torch.randint(0, 10, (BATCH,))
    for _ in range(steps):
        F.cross_entropy(tower(grow(table(items))), classes).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
