"""Each step compares the transcripts of its batch letter by letter in Python; the twin does so once, after training."""

import torch
import torch.nn.functional as F

from bench.set_aside_2.common import Encoder, Label, Layer, adamw, arguments, begin, update

LABEL = Label(
    cause="host/metrics_in_python",
    says=("metric", "Python", "edit_distance", "host", "between"),
)
FRAMES, LETTERS = 64, 40


def edit_distance(first: list[int], second: list[int]) -> int:
    """Letters to change, insert or delete."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]


class Transcriber(Encoder):
    """A letter for each frame."""

    def __init__(self) -> None:
        super().__init__(80, width=256, layers=2, classes=LETTERS)
        self.last = Layer(256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.last(self.layers(self.first(x)))))


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Transcriber()
    optimizer = adamw(model)
    sounds, texts = torch.randn(8, FRAMES, 80), torch.randint(LETTERS, (8, FRAMES))
    errors = 0
    for step in range(steps):
        scores = model(sounds)
        update(optimizer, F.cross_entropy(scores.flatten(0, 1), texts.flatten()))
        if flawed or step == steps - 1:
            heard = scores.argmax(2).tolist()
            errors += sum(edit_distance(a, b) for a, b in zip(heard, texts.tolist(), strict=True))


if __name__ == "__main__":
    main(*arguments())
