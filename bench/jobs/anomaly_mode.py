"""torch.autograd.set_detect_anomaly was left on after debugging; the twin has it off."""

import torch

from bench.common import Label, adamw, arguments, tower

LABEL = Label(cause="host/debug_switch_left_on", says=("anomaly", "detect_anomaly", "debug"))


def main(flawed: bool, steps: int) -> None:
    torch.autograd.set_detect_anomaly(flawed)
    model = tower(192, 32)
    optimizer, inputs = adamw(model), torch.randn(192, 192)
    for _ in range(steps):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
