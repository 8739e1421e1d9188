"""Activations: 28 wide inverted residuals keep all their maps; the twin recomputes them (checkpoint_sequential)."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

BLOCKS = 28


class InvertedResidual(nn.Module):
    def __init__(self, channels, expansion=5):
        super().__init__()
        wide = channels * expansion
        self.body = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.GroupNorm(8, wide),
            nn.SiLU(),
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
            nn.GroupNorm(8, wide),
            nn.SiLU(),
            nn.Conv2d(wide, channels, 1, bias=False),
            nn.GroupNorm(8, channels),
        )

    def forward(self, x):
        return x + self.body(x)


class Network(nn.Module):
    def __init__(self, channels=64, classes=20):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, stride=4)
        self.blocks = nn.Sequential(*(InvertedResidual(channels) for _ in range(BLOCKS)))
        self.head = nn.Linear(channels, classes)

    def forward(self, images, segments=None):
        x = self.stem(images)
        x = self.blocks(x) if segments is None else checkpoint_sequential(self.blocks, segments, x, use_reentrant=False)
        return self.head(x.mean(dim=(2, 3)))


torch.set_num_threads(1)
torch.manual_seed(61)
segments = {"flawed": None, "healthy": BLOCKS}[sys.argv[1]]
network = Network()
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05, fused=True)

for step in range(12):
    images, labels = torch.randn(3, 3, 32, 32), torch.randint(0, 20, (3,))
    loss = criterion(network(images, segments), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: loss {loss.item():.4f}")
    del images, labels, loss
