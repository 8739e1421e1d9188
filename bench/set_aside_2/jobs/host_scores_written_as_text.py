"""After each step all scores of the batch are written to a file as text; the twin writes those of the last step."""

import csv
import tempfile
from typing import TextIO

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, patches, update

LABEL = Label(
    cause="host/logging_every_step",
    says=("logging", "write", "csv", "between steps", "Python", "tolist"),
)


def write(file: TextIO, step: int, scores: Tensor) -> None:
    """One line for each score."""
    lines = csv.writer(file)
    for sample, row in enumerate(scores.tolist()):
        for kind, score in enumerate(row):
            lines.writerow((step, sample, kind, f"{score:.5f}"))
    file.flush()


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Encoder(192, width=256, layers=2, classes=1000)
    optimizer = adamw(model)
    inputs, targets = patches(24, 16, 192, classes=1000)
    with tempfile.TemporaryFile("w", encoding="utf-8") as file:
        for step in range(steps):
            scores = model(inputs)
            update(optimizer, F.cross_entropy(scores, targets))
            if flawed or step == steps - 1:
                write(file, step, torch.softmax(scores.detach(), 1))


if __name__ == "__main__":
    main(*arguments())
