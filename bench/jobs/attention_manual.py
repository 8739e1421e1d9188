"""Attention as two products with a mask and a softmax between them; the twin calls scaled_dot_product_attention."""

import torch
from torch import Tensor, nn

from bench.common import LM, Block, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="kernels/unfused_attention", says=("attention", "scaled_dot_product"))


class Manual(Block):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        length = q.shape[2]
        scores = q @ k.transpose(-2, -1) / q.shape[3] ** 0.5
        scores = scores.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        return scores.softmax(-1) @ v


def main(flawed: bool, steps: int) -> None:
    model = LM(width=128, layers=2, heads=4)
    if flawed:
        model.blocks = nn.ModuleList(Manual(128, heads=4) for _ in range(2))
    optimizer, batch = adamw(model), tokens(2, 513)
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
