"""Waiting requests are answered one after the other with batches of one; the twin answers all that wait in one batch."""

import torch

from bench.label import Label
from bench.set_aside.common import arguments, begin, mlp

LABEL = Label(cause="serving/batch_of_one", says=("batch",), kind="inference")
WAITING, WIDTH = 24, 1024


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = mlp(WIDTH, 12).eval()
    for _ in range(steps):
        requests = torch.randn(WAITING, WIDTH)
        batches = requests.split(1) if flawed else [requests]
        for batch in batches:
            model(batch).argmax(-1)


if __name__ == "__main__":
    main(*arguments())
