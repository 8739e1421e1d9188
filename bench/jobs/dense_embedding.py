"""A large table of embeddings gets dense gradients and a dense Adam; the twin uses sparse gradients and SparseAdam."""

import torch
from torch import nn
from torch.nn import functional as F

from bench.common import Label, adamw, arguments

LABEL = Label(cause="kernels/dense_embedding_gradient", says=("embedding", "sparse"))
ROWS = 240_000


def main(flawed: bool, steps: int) -> None:
    table = nn.EmbeddingBag(ROWS, 64, mode="sum", sparse=not flawed)
    head = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 1))
    optimizers = (adamw(table) if flawed else torch.optim.SparseAdam(table.parameters(), lr=1e-4), adamw(head))
    ids, wanted = torch.randint(0, ROWS, (512, 4)), torch.rand(512, 1)
    for _ in range(steps):
        loss = F.mse_loss(head(table(ids)), wanted)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
