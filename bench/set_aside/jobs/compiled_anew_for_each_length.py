"""A compiled model with fixed shapes is compiled again for each new prompt length; the twin is compiled with dynamic=True."""

import torch

from bench.label import Label
from bench.set_aside.common import Block, arguments, begin

LABEL = Label(
    cause="host/recompilation",
    says=("recompil", "dynamic", "compiled again"),
    pattern="some steps",
    kind="inference",
    style="compiled",
)


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    block = torch.compile(Block().eval(), dynamic=not flawed, backend="aot_eager")
    lengths = [48 + 7 * (step // 3) for step in range(steps)]
    for length in lengths:
        x = torch.randn(16, length, 192)
        for _ in range(3):
            x = block(x)


if __name__ == "__main__":
    main(*arguments())
