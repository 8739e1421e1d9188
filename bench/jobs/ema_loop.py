"""The moving average of the weights is a Python loop over state_dict with new tensors; the twin uses _foreach_lerp_."""

import torch
from torch import Tensor

from bench.common import Label, adamw, arguments, tower

LABEL = Label(cause="host/loop_over_parameters", says=("EMA", "foreach", "moving average", "loop"))


def main(flawed: bool, steps: int) -> None:
    model = tower(128, 96)
    optimizer, inputs = adamw(model), torch.randn(256, 128)
    weights: list[Tensor] = list(model.parameters())
    average = {name: value.clone() for name, value in model.state_dict().items()}
    means = list(average.values())
    for _ in range(steps):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            if flawed:
                for name, value in model.state_dict().items():
                    average[name] = 0.999 * average[name] + (1 - 0.999) * value.detach().clone()
            else:
                torch._foreach_lerp_(means, weights, 0.001)


if __name__ == "__main__":
    main(*arguments())
