"""Every batch is padded to the longest text there is; the twin pads to the longest of the batch."""

import torch
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, tokens, train_text

LABEL = Label(cause="kernels/padding", says=("padding", "padded", "pad "))
LONGEST, BATCH = 192, 8


def main(flawed: bool, steps: int) -> None:
    begin()
    lengths = torch.randint(40, 72, (64, BATCH))
    rows = tokens(BATCH, LONGEST)

    def text(step: int) -> Tensor:
        length = lengths[step % 64]
        width = LONGEST if flawed else int(length.max())
        return torch.where(torch.arange(width) < length[:, None], rows[:, :width], 0)

    train_text(Decoder(layers=2), steps, text)


if __name__ == "__main__":
    main(*arguments())
