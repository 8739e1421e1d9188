"""Accuracy and a confusion table are counted token by token in Python every step; the twin counts with tensors."""

from heapq import nlargest

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.common import LM, Label, adamw, arguments, tokens

LABEL = Label(cause="host/metrics_in_python", says=("metric", "tolist", "Python", ".item"))


def counted_in_python(logits: Tensor, wanted: Tensor, table: dict[tuple[int, int], int]) -> None:
    for scores, right in zip(logits.detach().flatten(0, 1), wanted.flatten(), strict=True):
        row = scores.tolist()
        best = nlargest(5, range(len(row)), key=row.__getitem__)
        pair = (best[0], int(right.item()))
        table[pair] = table.get(pair, 0) + 1


def main(flawed: bool, steps: int) -> None:
    model = LM()
    optimizer, batch = adamw(model), tokens(4, 97)
    table: dict[tuple[int, int], int] = {}
    counts = torch.zeros(1024 * 1024, dtype=torch.int32)
    for _ in range(steps):
        logits, wanted = model(batch[:, :-1]), batch[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if flawed:
            counted_in_python(logits, wanted, table)
        else:
            pairs = logits.detach().argmax(-1).flatten() * 1024 + wanted.flatten()
            counts.index_add_(0, pairs, torch.ones(len(pairs), dtype=torch.int32))


if __name__ == "__main__":
    main(*arguments())
