"""A recommender whose tables are large and whose batches are small: the optimizer takes most of a step.

    python bench/tuning/jobs/recommender.py

The clicks are made up; nothing is downloaded, and nothing is written.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

TABLES, ROWS, WIDTH, FIGURES, CLICKS, BATCH = 8, 12_000, 32, 13, 16_384, 128


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.figures = nn.Sequential(nn.Linear(FIGURES, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.ReLU())
        self.top = nn.Sequential(nn.Linear((TABLES + 1) * WIDTH, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, figures: Tensor, rows: Tensor) -> Tensor:
        looked_up = [table(rows[:, number]) for number, table in enumerate(self.tables)]
        return self.top(torch.cat([self.figures(figures), *looked_up], dim=1)).squeeze(1)


def clicks() -> TensorDataset:
    figures, rows = torch.randn(CLICKS, FIGURES), torch.randint(ROWS, (CLICKS, TABLES))
    liked = (figures[:, 0] + (rows[:, 0] % 7 - 3) + torch.randn(CLICKS) > 0).float()
    return TensorDataset(figures, rows, liked)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    model = Recommender()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(clicks(), batch_size=BATCH, shuffle=True)
    step = 0
    while step < steps:
        for figures, rows, liked in loader:
            optimizer.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(model(figures, rows), liked)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step:6d}  loss {loss.item():.4f}")
            if step == steps:
                break
    print(f"done: {step} steps")


if __name__ == "__main__":
    main()
