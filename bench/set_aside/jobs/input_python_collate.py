"""The collate function pads batches number by number in Python lists; the twin uses pad_sequence on stored tensors."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens, update

LABEL = Label(cause="input/slow_collate", says=("collate", "loader", "data loading", "num_workers"))
BATCH, LENGTH = 16, 384


def by_lists(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Text and mask, one number at a time."""
    longest = max(len(row) for row in rows)
    text, mask = [], []
    for row in rows:
        numbers = [int(number) for number in row]
        text.append(numbers + [0] * (longest - len(numbers)))
        mask.append([1 if place < len(numbers) else 0 for place in range(longest)])
    return torch.tensor(text), torch.tensor(mask)


def by_tensors(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The same, as whole tensors."""
    text = pad_sequence(rows, batch_first=True)
    return text, (text != 0).long()


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=1, width=64)
    optimizer = adamw(model)
    rows = [tokens(1, LENGTH - index % 5)[0] for index in range(BATCH * steps)]
    for text, _ in DataLoader(rows, batch_size=BATCH, collate_fn=by_lists if flawed else by_tensors):  # type: ignore[arg-type]
        update(optimizer, next_token_loss(model(text), text))


if __name__ == "__main__":
    main(*arguments())
