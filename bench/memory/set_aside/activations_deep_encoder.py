"""Activations: 20 narrow encoder layers keep all that backward needs; the twin recomputes each layer (checkpoint)."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, DEPTH, HEADS, LENGTH, BATCH, RESIDUES, FAMILIES = 80, 20, 4, 128, 4, 24, 30


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.to_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp_norm = nn.LayerNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def attend(self, x):
        rows, length, width = x.shape
        split = (rows, length, HEADS, width // HEADS)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.to_qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(mixed.transpose(1, 2).reshape(rows, length, width))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class ProteinEncoder(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(RESIDUES, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, FAMILIES)

    def forward(self, residues):
        x = self.embedding(residues) + self.position
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(self.norm(x).mean(dim=1))


def train(recompute, steps=12):
    model = ProteinEncoder(recompute)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    generator = torch.Generator().manual_seed(52)
    for step in range(steps):
        residues = torch.randint(0, RESIDUES, (BATCH, LENGTH), generator=generator)
        family = torch.randint(0, FAMILIES, (BATCH,), generator=generator)
        prediction = model(residues)
        loss = F.cross_entropy(prediction, family)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del prediction, loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["flawed", "healthy"])
    side = parser.parse_args().side
    torch.set_num_threads(1)
    torch.manual_seed(51)
    train(recompute=side == "healthy")
