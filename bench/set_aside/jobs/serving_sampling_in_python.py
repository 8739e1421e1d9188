"""The next token is drawn by sorting the whole vocabulary as Python lists; the twin uses topk and multinomial."""

import math
import random

import torch
from torch import Tensor, nn

from bench.label import Label
from bench.set_aside.common import arguments, begin, tokens

LABEL = Label(
    cause="serving/sampling_in_python", says=("sampl", "tolist", "Python", "host", "topk", "sort"), kind="generation"
)
BATCH, WIDTH, VOCABULARY, KEPT = 4, 512, 8000, 50


def draw_by_lists(logits: Tensor) -> Tensor:
    """Top-k sampling, row by row."""
    chosen = []
    for row in logits.tolist():
        best = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:KEPT]
        chosen.append(random.choices(best, [math.exp(row[place] - row[best[0]]) for place in best])[0])
    return torch.tensor(chosen)[:, None]


def draw(logits: Tensor) -> Tensor:
    """The same in three operations."""
    values, places = logits.topk(KEPT)
    return places.gather(-1, torch.multinomial(values.softmax(-1), 1))


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    embed, cell, head = (
        nn.Embedding(VOCABULARY, WIDTH),
        nn.LSTM(WIDTH, WIDTH, 8, batch_first=True),
        nn.Linear(WIDTH, VOCABULARY),
    )
    text, state = tokens(BATCH, 1), None
    for _ in range(steps):
        output, state = cell(embed(text), state)
        logits = head(output[:, -1])
        text = draw_by_lists(logits) if flawed else draw(logits)


if __name__ == "__main__":
    main(*arguments())
