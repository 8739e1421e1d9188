"""A small language model of bytes in Lightning: text is prepared while it trains, and every option is the default.

    python bench/tuning/jobs/lightning_fit.py

The text is made up; nothing is downloaded, and nothing is written.
"""

import argparse
import random

import lightning
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 256, 64, 192, 4, 4, 8
WORDS = ["a", "the", "red", "tall", "quiet", "cat", "house", "river", "sees", "follows", "under", "and"]


class Lines(Dataset[Tensor]):
    """Sentences, encoded byte by byte whenever they are read."""

    def __init__(self, lines: int) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return self.lines

    def __getitem__(self, index: int) -> Tensor:
        chance = random.Random(index)
        text = ""
        while len(text) <= 8 * CONTEXT:
            text += chance.choice(WORDS) + " "
        start = chance.randrange(4 * CONTEXT)
        return torch.tensor([ord(letter) for letter in text[start : start + CONTEXT + 1]])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            self.query_key_value(self.attention_norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class ByteModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + self.positions.weight
        return self.head(self.norm(self.blocks(x)))


class Training(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = ByteModel()

    def training_step(self, batch: Tensor, number: int) -> Tensor:
        logits = self.model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def trainer(steps: int) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=steps,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    lightning.seed_everything(0, verbose=False)
    trainer(steps).fit(Training(), DataLoader(Lines(steps * BATCH), batch_size=BATCH))
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
