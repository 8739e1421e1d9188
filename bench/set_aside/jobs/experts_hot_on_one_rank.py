"""The router sends three quarters of the tokens to the expert on rank 0; in the twin each expert gets half."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.nn.functional import all_to_all_single

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin, process_group, update

LABEL = Label(
    cause="communication/hot_expert",
    says=(
        "expert",
        "imbalance",
        "unequal",
        "uneven",
        "straggler",
        "rank 0",
        "slowest rank",
        "all-to-all",
        "all_to_all",
    ),
    ranks=2,
    rank=0,
)
ROWS, WIDTH = 512, 192


def exchange(rows: Tensor, sends: list[int], receives: list[int]) -> Tensor:
    """Rows to the ranks of their experts, or back."""
    return all_to_all_single(rows.new_empty(sum(receives), WIDTH), rows, receives, sends)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        wide = 4 * WIDTH
        expert = nn.Sequential(
            nn.Linear(WIDTH, wide), nn.GELU(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, WIDTH)
        )
        optimizer = adamw(expert)
        to_first = ROWS * 3 // 4 if flawed else ROWS // 2
        sends = [to_first, ROWS - to_first]
        receives = [sends[rank]] * dist.get_world_size()
        inputs, targets = torch.randn(ROWS, WIDTH, requires_grad=True), torch.randn(ROWS, WIDTH)
        for _ in range(steps):
            mixed = exchange(expert(exchange(inputs, sends, receives)), receives, sends)
            update(optimizer, F.mse_loss(inputs + mixed, targets))
            inputs.grad = None


if __name__ == "__main__":
    main(*arguments())
