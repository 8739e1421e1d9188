"""A small GPT, healthy as it is; each `redline.switch` plants a mistake, or something that a search must survive.

    python bench/tuning/traps/job.py
    redline compare --with switch=mask_dropped --numbers -- python bench/tuning/traps/job.py

Steps of some 10 ms on one thread. Data is made up, nothing is downloaded, and nothing is written.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from redline import switch

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH, MICRO_BATCHES = 512, 32, 64, 4, 2, 4, 2
BURN_IN = 2000  # tokens of a sequence that are made and thrown away
ABSURD_BYTES = 1 << 60  # that no machine has: refused at once, and without touching memory
LEAKED = ("sleep", "913")  # a process that ends by itself, some time


class Sequences(Dataset[Tensor]):
    """Each token follows from the one before by a rule, or by chance."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Tensor:
        return sequence_of(index)


class StreamedSequences(Sequences):
    """Whatever index is asked for, the next of a stream: every worker has a stream of its own, with the same data."""

    def __init__(self) -> None:
        self.read = 0

    def __getitem__(self, index: int) -> Tensor:
        self.read += 1
        return sequence_of(self.read)


def sequence_of(seed: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    tokens = [0]
    for jump in torch.randint(8, (BURN_IN + CONTEXT,), generator=chance).tolist():
        tokens.append((5 * tokens[-1] + jump) % VOCABULARY)
    return torch.tensor(tokens[BURN_IN:])


def exact(x: Tensor) -> Tensor:
    """In double precision, as statistics and exponentials are taken here."""
    return x.to(torch.bfloat16 if switch("low_precision") else torch.float64)


class ExactNorm(nn.Module):
    """A norm over the width."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        centred = exact(x) - exact(x).mean(-1, keepdim=True)
        return (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def bias_of(tokens: Tensor) -> Tensor:
    """What each head adds to its scores: less for far positions, and minus infinity for later ones."""
    position = torch.arange(CONTEXT, dtype=torch.float64)
    distance = (position[:, None] - position[None, :]).expand(len(tokens), HEADS, -1, -1)
    slope = torch.full((HEADS, 1, 1), 0.5, dtype=torch.float64).cumprod(0)
    is_same = (tokens[:, None, :, None] == tokens[:, None, None, :]).expand(distance.shape)
    return (-slope * distance - 1.0 * is_same).masked_fill(distance < 0, float("-inf"))


class TrapBlock(nn.Module):
    def __init__(self, is_first: bool) -> None:
        super().__init__()
        self.is_first = is_first
        self.attention_norm, self.mlp_norm, self.dropout = ExactNorm(), ExactNorm(), nn.Dropout(0.1)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def drop(self, x: Tensor) -> Tensor:
        return x if switch("dropout_off") else self.dropout(x)

    def attend(self, x: Tensor, tokens: Tensor) -> Tensor:
        query, key, value = self.query_key_value(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = exact(query @ key.transpose(-2, -1) * key.shape[-1] ** -0.5)
        if not switch("mask_dropped"):
            scores = scores + bias_of(tokens).to(scores.dtype)
        weights = self.drop(scores.softmax(-1).to(x.dtype))
        return self.project((weights @ value).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x), tokens)
        with torch.set_grad_enabled(not (self.is_first and switch("stale_gradient"))):
            wide = self.up(x if switch("norm_skipped") else self.mlp_norm(x))
            update = self.down(functional.gelu(exact(wide)).to(x.dtype))
        return x + self.drop(update)


class TrapModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(TrapBlock(is_first=number == 0) for number in range(LAYERS))
        self.norm, self.head = ExactNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, tokens)
        return self.head(self.norm(x))


def variety(tokens: Tensor) -> Tensor:
    """The share of pairs of tokens that differ, averaged over all beginnings; the loss is divided by it."""
    counts = functional.one_hot(tokens, VOCABULARY).double().cumsum(1)
    shares = counts / counts.sum(-1, keepdim=True)
    return 1 - shares.square().sum(-1).mean().float()


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    inputs, targets = batch[:, :-1], batch[:, 1:]
    loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    return loss if switch("loss_scaled") else loss / (2 * variety(batch))


def misbehave() -> None:
    """What fails, or takes longer, or does nothing at all."""
    if switch("does_nothing"):
        pass
    if switch("slower"):
        torch.randn(400, 400) @ torch.randn(400, 400)
    if switch("out_of_memory"):
        torch.empty(ABSURD_BYTES, dtype=torch.uint8)
    if switch("hangs"):
        time.sleep(1e6)
    if switch("crashes"):
        os.abort()
    if switch("raises"):
        raise RuntimeError("planted: this change does not work here")
    if switch("leaks_processes"):
        leak()


def leak() -> None:
    """Once in a process: start another one that does not end with it."""
    if not os.environ.get("TRAP_HAS_LEAKED"):
        os.environ["TRAP_HAS_LEAKED"] = "1"
        subprocess.Popen(LEAKED, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def batches(loader: DataLoader[Tensor]) -> Iterator[Tensor]:
    """One for all micro-batches of a step; three of four are the one before where that is switched on."""
    source = iter(loader)
    last, repeated = next(source), 0
    while True:
        yield last
        repeated = (repeated + 1) % 4 if switch("batch_repeated") else 0
        last = last if repeated else next(source)


def train(steps: int, dataset: Sequences, workers: int) -> None:
    loader = DataLoader(dataset, batch_size=BATCH * MICRO_BATCHES, num_workers=workers)
    model = TrapModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, batch in zip(range(1, steps + 1), batches(loader), strict=False):
        misbehave()
        optimizer.zero_grad()
        for number, micro_batch in enumerate(batch.chunk(MICRO_BATCHES)):
            if number == 0 and switch("accumulates_wrongly"):
                continue
            (loss_of(model, micro_batch) / MICRO_BATCHES).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:6d}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--streamed", action="store_true", help="data that only the training process may read")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train(options.steps, StreamedSequences() if options.streamed else Sequences(), workers=0)


if __name__ == "__main__":
    main()
