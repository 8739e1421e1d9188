"""Weights are stored as bfloat16 and widened to float32 in every call; the twin widens them once when it loads."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import arguments, begin

LABEL = Label(
    cause="serving/weights_converted_each_call",
    says=("weight", "cast", "conver", "dtype", "bfloat16"),
    kind="inference",
)
WIDTH, LAYERS = 1024, 10


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    stored = [torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16) / 32 for _ in range(LAYERS)]
    weights: list[Tensor] = stored if flawed else [weight.float() for weight in stored]
    for _ in range(steps):
        x = torch.randn(96, WIDTH)
        for weight in weights:
            x = F.gelu(F.linear(x, weight.float()))


if __name__ == "__main__":
    main(*arguments())
