"""A frozen table in bfloat16 is converted whole before a few rows are looked up; the twin converts the rows."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Encoder, Label, arguments, begin, train

LABEL = Label(
    cause="kernels/dtype_conversions",
    says=("conver", "cast", "dtype", "_to_copy", "bfloat16"),
)
WORDS, SIZE = 60_000, 256


class Tagger(nn.Module):
    """Looks up vectors that are not trained, and classifies the sequence."""

    table: Tensor

    def __init__(self, flawed: bool) -> None:
        super().__init__()
        self.flawed = flawed
        self.register_buffer("table", torch.randn(WORDS, SIZE).bfloat16())
        self.encoder = Encoder(SIZE, layers=2)

    def forward(self, words: Tensor) -> Tensor:
        vectors = F.embedding(words, self.table.float()) if self.flawed else F.embedding(words, self.table).float()
        return self.encoder(vectors)


def main(flawed: bool, steps: int) -> None:
    begin()
    data = [(torch.randint(WORDS, (8, 64)), torch.randint(100, (8,))) for _ in range(4)]
    train(Tagger(flawed), steps, lambda step: data[step % 4])


if __name__ == "__main__":
    main(*arguments())
