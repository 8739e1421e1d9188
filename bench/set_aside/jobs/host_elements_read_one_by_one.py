"""Rewards are built by reading tensor elements one by one in Python; the twin computes them as whole tensors."""

import torch
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, tokens, update

LABEL = Label(cause="host/element_reads", says=("item", "element", "vectori", "Python loop", "one by one", "host read"))
DISCOUNT = 0.9


def returns_by_element(hits: Tensor) -> Tensor:
    """Discounted sums, number by number."""
    sums = torch.zeros(hits.shape)
    for row in range(hits.shape[0]):
        later = 0.0
        for place in reversed(range(hits.shape[1])):
            later = hits[row, place].item() + DISCOUNT * later
            sums[row, place] = later
    return sums


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2)
    optimizer = adamw(model)
    text = tokens(8, 96)
    far = torch.arange(96)
    weights = torch.where(far[:, None] >= far[None, :], DISCOUNT ** (far[:, None] - far[None, :]).clamp(min=0), 0.0)
    for _ in range(steps):
        logits = model(text)
        chosen = logits.log_softmax(-1).gather(-1, text[..., None])[..., 0]
        hits = (logits.detach().argmax(-1) == text).float()
        worth = returns_by_element(hits) if flawed else hits @ weights
        update(optimizer, -(chosen * worth).mean())


if __name__ == "__main__":
    main(*arguments())
