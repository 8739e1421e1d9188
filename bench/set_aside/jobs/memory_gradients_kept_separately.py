"""Micro-batch gradients are cloned, kept in lists and summed in Python; the twin lets autograd accumulate in place."""

import torch
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(cause="memory/gradient_copies", says=("clone", "copy", "copies", "accumulat", "allocat", "gradient"))
MICRO = 4


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2, vocabulary=6000)
    optimizer = adamw(model)
    parameters, data = list(model.parameters()), [tokens(1, 24) for _ in range(MICRO)]
    for _ in range(steps):
        kept: list[list[Tensor]] = []
        for text in data:
            (next_token_loss(model(text), text) / MICRO).backward()
            if flawed:
                kept.append([p.grad.clone() for p in parameters if p.grad is not None])
                optimizer.zero_grad()
        if flawed:
            for p, parts in zip(parameters, zip(*kept, strict=True), strict=True):
                p.grad = torch.stack(parts).sum(0)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
