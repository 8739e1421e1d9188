"""Python's garbage collector walks a large heap again and again while steps make records; the twin freezes the heap and turns it off."""

import gc

import torch
import torch.nn.functional as F

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, update

LABEL = Label(cause="host/garbage_collection", says=("garbage", "gc"), pattern="some steps")
BATCH, WIDTH, INDEX = 512, 128, 150_000


def main(flawed: bool, steps: int) -> None:
    begin()
    gc.disable()
    index = [{"file": [number], "span": [number, number + 1]} for number in range(INDEX)]
    if flawed:
        gc.enable()
    else:
        gc.freeze()
    model = mlp(WIDTH, 4)
    optimizer = adamw(model)
    inputs, classes = torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
    records: list[dict[str, list[int]]] = []
    for step in range(steps):
        update(optimizer, F.cross_entropy(model(inputs), classes))
        # What was seen in this step, kept for the report at the end.
        records += [{"of": index[number]["file"], "at": [step, number]} for number in range(20_000)]


if __name__ == "__main__":
    main(*arguments())
