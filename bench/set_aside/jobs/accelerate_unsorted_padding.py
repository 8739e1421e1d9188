"""Short and long texts share batches, so most of each batch is padding; the twin groups texts of like length."""

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(cause="kernels/padding", says=("padding", "padded", "pad ", "length"), style="accelerate")
BATCH = 8


def together(rows: list[Tensor]) -> Tensor:
    """A batch, padded to its longest."""
    return pad_sequence(rows, batch_first=True)


def main(flawed: bool, steps: int) -> None:
    begin()
    rows = [tokens(1, 144 if number % BATCH == 0 else 24)[0] for number in range(BATCH * BATCH)] * (steps // BATCH + 1)
    rows = rows[: BATCH * steps]
    if not flawed:
        rows.sort(key=len)
        pieces = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        rows = [row for place in torch.randperm(len(pieces)).tolist() for row in pieces[place]]
    accelerator = Accelerator(cpu=True)
    model = Decoder(layers=2)
    model, optimizer, loader = accelerator.prepare(
        model,
        adamw(model),
        DataLoader(rows, batch_size=BATCH, collate_fn=together),  # type: ignore[arg-type]
    )
    for text in loader:
        accelerator.backward(next_token_loss(model(text), text))
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(*arguments())
