"""Only the head is optimised, yet gradients flow through the whole frozen body; the twin runs the body under no_grad."""

import torch
import torch.nn.functional as F
from torch import nn

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, tokens, update

LABEL = Label(
    cause="kernels/frozen_part_computes_gradients",
    says=("frozen", "requires_grad", "no_grad", "not optimi", "unused grad"),
)


def main(flawed: bool, steps: int) -> None:
    begin()
    body, head = Decoder(layers=4), nn.Linear(192, 5)
    body.requires_grad_(flawed)
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3, fused=True)
    data, classes = [tokens() for _ in range(4)], torch.randint(0, 5, (8,))
    for step in range(steps):
        with torch.set_grad_enabled(flawed):
            features = body.body(data[step % 4]).mean(1)
        update(optimizer, F.cross_entropy(head(features), classes))
        for p in body.parameters():
            p.grad = None


if __name__ == "__main__":
    main(*arguments())
