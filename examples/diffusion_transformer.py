"""A tiny diffusion transformer (DiT) that learns to take the noise off pictures of squares, discs and crosses.

    python examples/diffusion_transformer.py --steps 100

Pictures are drawn by two workers of the data loader while the program runs; nothing is downloaded. An average of the
weights is kept, as for sampling. Uses a GPU if there is one.
"""

import argparse
import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

SIZE, PATCH, WIDTH, HEADS, LAYERS, BATCH, TIMES, SHAPES = 32, 4, 192, 6, 4, 16, 1000, 3


class Pictures(Dataset[tuple[Tensor, int]]):
    """One shape each, white on black, of any size at any place."""

    def __init__(self, pictures: int) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return self.pictures

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        random = torch.Generator().manual_seed(index)
        x, y, radius = (torch.rand(3, generator=random) * torch.tensor([16, 16, 6]) + torch.tensor([8, 8, 3])).tolist()
        across, down = (torch.arange(SIZE) - x).abs()[None, :], (torch.arange(SIZE) - y).abs()[:, None]
        square = torch.maximum(across, down) < radius
        drawn = (square, across**2 + down**2 < radius**2, square & (torch.minimum(across, down) < 1.5))[index % SHAPES]
        return drawn.float()[None] * 2 - 1, index % SHAPES


class Block(nn.Module):
    """A transformer block whose norms are scaled, shifted and gated by the condition (adaLN-zero)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.modulation = nn.Linear(WIDTH, 6 * WIDTH)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def attend(self, x: Tensor) -> Tensor:
        query, key, value = self.query_key_value(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.project(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        x = x + gate_1 * self.attend(self.norm(x) * (1 + scale_1) + shift_1)
        return x + gate_2 * self.mlp(self.norm(x) * (1 + scale_2) + shift_2)


class DiT(nn.Module):
    frequencies: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.positions = nn.Parameter(torch.randn((SIZE // PATCH) ** 2, WIDTH) * 0.02)
        self.time = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.shape = nn.Embedding(SHAPES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, PATCH * PATCH)
        self.register_buffer("frequencies", torch.exp(torch.arange(WIDTH // 2) * (-math.log(10000) / (WIDTH // 2))))

    def forward(self, noisy: Tensor, times: Tensor, shapes: Tensor) -> Tensor:
        angles = times[:, None] * self.frequencies
        condition = functional.silu(self.time(torch.cat((angles.cos(), angles.sin()), dim=-1)) + self.shape(shapes))
        x = self.patches(noisy).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x, condition)
        return functional.fold(self.head(self.norm(x)).transpose(1, 2), (SIZE, SIZE), PATCH, stride=PATCH)


def loss_of(model: DiT, kept: Tensor, pictures: Tensor, shapes: Tensor) -> Tensor:
    """How badly the model guesses the noise that was added."""
    times = torch.randint(TIMES, (len(pictures),), device=pictures.device)
    noise = torch.randn_like(pictures)
    share = kept[times][:, None, None, None]
    return functional.mse_loss(model(share.sqrt() * pictures + (1 - share).sqrt() * noise, times, shapes), noise)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Pictures(steps * BATCH), batch_size=BATCH, shuffle=True, num_workers=2)
    model = DiT().to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES, device=device), dim=0)
    for step, (pictures, shapes) in enumerate(loader, start=1):
        loss = loss_of(model, kept, pictures.to(device), shapes.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
        if step % 10 == 0 or step == steps:
            print(f"step {step:4d}  loss {loss.item():.4f}")
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
