"""Previous step alive: `outputs`, with all codes, lives until the next forward pass returns; the twin deletes it."""

import sys
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

SPECTRUM, WIDTH, DEPTH, BATCH = 256, 448, 8, 600


class Outputs(NamedTuple):
    reconstruction: torch.Tensor
    penalty: torch.Tensor
    codes: list[torch.Tensor]


class SparseAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [SPECTRUM] + [WIDTH] * DEPTH
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.decode = nn.Linear(WIDTH, SPECTRUM)

    def forward(self, spectrum):
        codes, penalty, x = [], 0.0, spectrum
        for layer in self.hidden:
            x = torch.relu(layer(x))
            penalty = penalty + x.mean()
            codes.append(x)
        return Outputs(self.decode(x), penalty, codes)


torch.set_num_threads(1)
torch.manual_seed(131)
flawed = sys.argv[1] == "flawed"
model = SparseAutoencoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

for step in range(12):
    spectrum = torch.rand(BATCH, SPECTRUM)
    outputs = model(spectrum)
    loss = F.mse_loss(outputs.reconstruction, spectrum) + 1e-3 * outputs.penalty
    active = [code.count_nonzero().item() / code.numel() for code in outputs.codes]
    if not flawed:
        del outputs
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: loss {loss.item():.4f}, active {min(active):.2f} to {max(active):.2f}")
    del loss, spectrum
