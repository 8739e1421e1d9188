"""Sixteen waiting requests are answered one after the other; the twin answers them in one batch."""

import torch

from bench.common import LM, Label, arguments, tokens

LABEL = Label(cause="serving/batch_of_one", says=("batch",), kind="inference")


def main(flawed: bool, steps: int) -> None:
    model = LM(width=384, layers=4).eval()
    requests = tokens(16, 24)
    with torch.inference_mode():
        for _ in range(steps):
            for some in requests.split(1 if flawed else 16):
                model(some)


if __name__ == "__main__":
    main(*arguments())
