"""A translator encodes the source text again for every word it writes; the twin encodes it once for each request."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Label, Layer, arguments, begin

LABEL = Label(
    cause="serving/encoder_recomputed",
    says=("encod", "same input", "recomput", "again", "cache"),
    kind="generation",
)
WIDTH, WORDS, WRITTEN = 256, 2000, 6


class Translator(nn.Module):
    """An encoder, and a decoder that looks at it and at the last word with a recurrent state."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.Sequential(*(Layer(WIDTH) for _ in range(2)))
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(2 * WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source: Tensor, last: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(self.words(last), state)
        seen = F.scaled_dot_product_attention(state[:, None], source, source)[:, 0]
        mixed = self.narrow(F.gelu(self.wide(torch.cat([state, seen], 1))))
        return self.head(mixed).argmax(1), state


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = Translator().eval()
    for _ in range(steps):
        text = torch.randint(WORDS, (32, 24))
        source, last, state = model.encoder(model.words(text)), text[:, 0], torch.zeros(32, WIDTH)
        for index in range(WRITTEN):
            if flawed and index:
                source = model.encoder(model.words(text))
            last, state = model(source, last, state)


if __name__ == "__main__":
    main(*arguments())
