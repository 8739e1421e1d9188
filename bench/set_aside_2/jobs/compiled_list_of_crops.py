"""A compiled model takes a list of crops and is compiled anew for each length; the twin takes them in one tensor."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, update

LABEL = Label(
    cause="host/recompilation",
    says=("recompil", "compil", "dynamic", "guard"),
    pattern="first steps",
    style="compiled",
)
COUNTS = (9, 6, 12, 7, 11, 5, 10, 8)


class Crops(nn.Module):
    """Classifies crops of a few images, given as a list or as one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(256, layers=2)

    def forward(self, crops: list[Tensor] | Tensor) -> Tensor:
        return self.encoder(crops if isinstance(crops, Tensor) else torch.stack(crops))


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Crops()
    optimizer = adamw(model)
    fast = torch.compile(model, backend="aot_eager")
    crops, kinds = torch.randn(max(COUNTS), 48, 256), torch.randint(100, (max(COUNTS),))
    for step in range(steps):
        count = COUNTS[step % len(COUNTS)]
        chosen = crops[:count].clone()
        torch._dynamo.mark_dynamic(chosen, 0)
        scores = fast(list(chosen) if flawed else chosen)
        update(optimizer, F.cross_entropy(scores, kinds[:count]))


if __name__ == "__main__":
    main(*arguments())
