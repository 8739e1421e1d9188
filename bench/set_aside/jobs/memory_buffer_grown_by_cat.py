"""A store of past features grows with torch.cat and is copied whole each step; the twin writes into a store made once."""

import torch
import torch.nn.functional as F

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, update

LABEL = Label(cause="memory/copies_by_concatenation", says=("cat", "preallocat", "copy", "copies", "allocat"))
BATCH, WIDTH, KEPT = 256, 192, 60_000


def main(flawed: bool, steps: int) -> None:
    begin()
    model = mlp(WIDTH, 6)
    optimizer = adamw(model)
    inputs, classes = torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
    store, filled = torch.randn(KEPT + BATCH * steps, WIDTH), KEPT
    if flawed:
        store = store[:KEPT].clone()
    for _ in range(steps):
        features = model[:-1](inputs)
        update(optimizer, F.cross_entropy(model[-1](features), classes))
        if flawed:
            store = torch.cat([store, features.detach()])
        else:
            store[filled : filled + BATCH] = features.detach()
        filled += BATCH


if __name__ == "__main__":
    main(*arguments())
