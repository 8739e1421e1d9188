"""The words already written are penalised one number at a time in Python; the twin gathers and scatters them."""

import torch
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="serving/sampling_in_python",
    says=("sampling", "Python", "loop", "index", "one by one", "element"),
    kind="generation",
)
BATCH, WIDTH, WORDS = 48, 768, 4000


class Writer(nn.Module):
    """A recurrent language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.cells = nn.ModuleList(nn.GRUCell(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, last: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        x, new = self.words(last), []
        for cell, state in zip(self.cells, states, strict=True):
            x = cell(x, state)
            new.append(x)
        return self.head(x), new


def penalise(scores: Tensor, written: Tensor, flawed: bool) -> None:
    """Lower what speaks for words that were written lately."""
    if flawed:
        for row, words in enumerate(written.tolist()):
            for word in words:
                scores[row, word] -= 0.7
    else:
        scores.scatter_(1, written, scores.gather(1, written) - 0.7)


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = Writer().eval()
    written, states = torch.randint(WORDS, (BATCH, 48)), [torch.zeros(BATCH, WIDTH)] * 2
    for _ in range(steps):
        scores, states = model(written[:, -1], states)
        penalise(scores, written, flawed)
        written = torch.cat([written[:, 1:], torch.multinomial(scores.softmax(1), 1)], 1)


if __name__ == "__main__":
    main(*arguments())
