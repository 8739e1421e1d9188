"""Distillation sends gradients back through a teacher nobody trains; in the twin the teacher runs without gradients."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, patches, update

LABEL = Label(
    cause="kernels/frozen_part_computes_gradients",
    says=("frozen", "no_grad", "requires_grad", "not trained", "gradient", "optimizer"),
)


def distance(student: Tensor, teacher: Tensor) -> Tensor:
    """How far the student's guesses are from the teacher's."""
    return F.kl_div(student.log_softmax(1), teacher.log_softmax(1), reduction="batchmean", log_target=True)


def main(flawed: bool, steps: int) -> None:
    begin()
    teacher: nn.Module = Encoder(192, width=256, layers=3).eval()
    student = Encoder(192, width=256, layers=1)
    optimizer = adamw(student)
    inputs, _ = patches(8, 64, 192)
    for _ in range(steps):
        with torch.set_grad_enabled(flawed):
            wanted = teacher(inputs)
        update(optimizer, distance(student(inputs), wanted))


if __name__ == "__main__":
    main(*arguments())
