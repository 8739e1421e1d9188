"""Stale gradients: zero_grad comes after the forward pass, which runs with the gradients of the step before alive."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FEATURES, WIDTH, BATCH = 64, 896, 176


class ResidualLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(F.gelu(self.linear(self.norm(x))))


class TabularNet(nn.Sequential):
    def __init__(self, depth=5):
        layers = [ResidualLayer(WIDTH) for _ in range(depth)]
        super().__init__(nn.Linear(FEATURES, WIDTH), *layers, nn.Linear(WIDTH, 1))


class Fit:
    def __init__(self, clear_first):
        self.clear_first = clear_first
        self.net = TabularNet()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.weights = torch.randn(FEATURES, 1)

    def batch(self):
        table = torch.randn(BATCH, FEATURES)
        return table, table @ self.weights

    def step(self):
        table, target = self.batch()
        loss = F.mse_loss(self.net(table), target)
        if not self.clear_first:
            self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.clear_first:
            self.optimizer.zero_grad()
        return loss.item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(91)
    fit = Fit(clear_first=sys.argv[1] == "healthy")
    for step in range(12):
        print(f"step {step}: loss {fit.step():.4f}")
