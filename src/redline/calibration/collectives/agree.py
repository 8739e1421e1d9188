"""How ranks come to know the same: what the first one says, the largest of all, or everyone's. Runs on ranks only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

from redline.calibration.device import ProbeDevice

T = TypeVar("T")


def broadcast_numbers(numbers: Sequence[int], device: ProbeDevice) -> list[int]:
    """What the first rank says."""
    table = torch.tensor(numbers, dtype=torch.int64, device=device.torch_device)
    dist.broadcast(table, 0)
    return [int(number) for number in table.tolist()]


def largest(rows: Sequence[Sequence[float]], device: ProbeDevice) -> list[list[float]]:
    """Of each number the largest of all ranks."""
    table = torch.tensor(rows, dtype=torch.float64, device=device.torch_device)
    dist.all_reduce(table, dist.ReduceOp.MAX)
    return [[float(number) for number in row] for row in table.tolist()]


def everyones(own: T) -> list[T]:
    """What each rank has to say, by rank."""
    table: list[T | None] = [None] * dist.get_world_size()
    dist.all_gather_object(table, own)
    return [entry for entry in table if entry is not None]
