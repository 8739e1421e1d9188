"""A mode that counts floating-point operations stays on around every step; the twin counts those of the first step."""

from contextlib import nullcontext

import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, patches, update

LABEL = Label(
    cause="host/debug_switch_left_on",
    says=("FlopCounter", "flop_counter", "dispatch", "debug", "mode", "Python"),
)


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Encoder(192, width=192, layers=8)
    optimizer = adamw(model)
    inputs, targets = patches(4, 32, 192)
    for step in range(steps):
        with FlopCounterMode(display=False) if flawed or step == 0 else nullcontext():
            update(optimizer, F.cross_entropy(model(inputs), targets))


if __name__ == "__main__":
    main(*arguments())
