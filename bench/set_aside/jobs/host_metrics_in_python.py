"""A ranking metric is worked out in Python over all predictions after each step; the twin computes it with tensor operations."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, update

LABEL = Label(
    cause="host/metrics_each_step", says=("metric", "between steps", "after the step", "outside the step", "Python")
)
BATCH, WIDTH = 4096, 96


def area_under_curve_python(scores: Tensor, positive: Tensor) -> float:
    """Area under the ROC curve, by sorting a list of pairs."""
    pairs = sorted(zip(scores.tolist(), positive.tolist(), strict=True))
    rank_sum, count = 0.0, 0
    for place, (_, hit) in enumerate(pairs, start=1):
        if hit:
            rank_sum += place
            count += 1
    return (rank_sum - count * (count + 1) / 2) / max(1, count * (len(pairs) - count))


def area_under_curve(scores: Tensor, positive: Tensor) -> Tensor:
    """The same as three tensor operations."""
    ranks = scores.argsort().argsort() + 1
    count = positive.sum()
    return ((ranks * positive).sum() - count * (count + 1) / 2) / (count * (len(scores) - count)).clamp(min=1)


def main(flawed: bool, steps: int) -> None:
    begin()
    model = mlp(WIDTH, 3)
    optimizer = adamw(model)
    inputs, classes = torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
    for _ in range(steps):
        logits = model(inputs)
        update(optimizer, F.cross_entropy(logits, classes))
        scores = logits.detach().softmax(1)
        for kind in range(10):
            measure = area_under_curve_python if flawed else area_under_curve
            measure(scores[:, kind], classes == kind)


if __name__ == "__main__":
    main(*arguments())
