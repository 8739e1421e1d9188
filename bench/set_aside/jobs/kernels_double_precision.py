"""Features from NumPy are float64 and the model was cast to match; the twin casts the data to float32 once."""

import numpy as np
import torch
import torch.nn.functional as F

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, mlp, update

LABEL = Label(cause="kernels/float64", says=("float64", "double", "fp64"))


def main(flawed: bool, steps: int) -> None:
    begin()
    table = np.random.default_rng(0).standard_normal((512, 256))
    inputs = torch.from_numpy(table if flawed else table.astype(np.float32))
    classes = torch.randint(0, 10, (512,))
    model = mlp(256, 8).to(inputs.dtype)
    optimizer = adamw(model)
    for _ in range(steps):
        update(optimizer, F.cross_entropy(model(inputs), classes))


if __name__ == "__main__":
    main(*arguments())
