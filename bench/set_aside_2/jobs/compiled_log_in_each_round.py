"""A compiled refinement loop prints its residual to a log in each round and falls apart; the twin does not log."""

import logging

import torch
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin, train

LABEL = Label(
    cause="host/graph_breaks",
    says=("graph break", "fullgraph", "break", "item"),
    style="compiled",
)
WIDTH, ROUNDS = 256, 24
LOG = logging.getLogger("refinement")


class Refined(nn.Module):
    """Brings a state closer to rest, a little in each round."""

    def __init__(self, flawed: bool) -> None:
        super().__init__()
        self.flawed = flawed
        self.change, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 16)

    def forward(self, x: Tensor) -> Tensor:
        state = x
        for number in range(ROUNDS):
            update = torch.tanh(self.change(state)) - state * 0.5 + x * 0.1
            state = state + 0.1 * update * torch.sigmoid(update.square() - 1.0)
            if self.flawed:
                LOG.debug("round %d: %.4f", number, update.norm().item())
        return self.head(state)


def main(flawed: bool, steps: int) -> None:
    begin()
    data = torch.randn(96, WIDTH), torch.randint(16, (96,))
    train(torch.compile(Refined(flawed), backend="aot_eager"), steps, lambda _: data)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*arguments())
