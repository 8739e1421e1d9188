"""Sentences of 20 to 60 tokens are all padded to 128; the twin pads to the longest of the batch."""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from bench.common import LM, Label, adamw, arguments

LABEL = Label(cause="input/padded_to_maximum", says=("padding", "padded", "pad token"))


def longest(rows: list[Tensor]) -> Tensor:
    return pad_sequence(rows, batch_first=True)


def maximum(rows: list[Tensor]) -> Tensor:
    batch = longest(rows)
    return F.pad(batch, (0, 129 - batch.shape[1]))


def main(flawed: bool, steps: int) -> None:
    lengths = torch.randint(20, 61, (8 * steps,)).tolist()
    sentences = [torch.randint(1, 1024, (length,)) for length in lengths]
    model = LM(width=192)
    optimizer = adamw(model)
    collate = maximum if flawed else longest
    for batch in DataLoader(sentences, batch_size=8, collate_fn=collate):  # type: ignore[arg-type]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
