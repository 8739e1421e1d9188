"""How each collective is called in torch, on buffers that are there already. Runs on the ranks only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

from redline.calibration.collectives.collective_law import ELEMENT_BYTES, due, given, lengths
from redline.calibration.device import ProbeDevice

T = TypeVar("T")


def broadcast_numbers(numbers: Sequence[int], device: ProbeDevice) -> list[int]:
    table = torch.tensor(numbers, dtype=torch.int64, device=device.torch_device)
    dist.broadcast(table, 0)
    return [int(number) for number in table.tolist()]


def largest(rows: Sequence[Sequence[float]], device: ProbeDevice) -> list[list[float]]:
    """Each number, the largest of all ranks."""
    table = torch.tensor(rows, dtype=torch.float64, device=device.torch_device)
    dist.all_reduce(table, dist.ReduceOp.MAX)
    return [[float(number) for number in row] for row in table.tolist()]


def everyones(own: T) -> list[T]:
    table: list[T | None] = [None] * dist.get_world_size()
    dist.all_gather_object(table, own)
    return [entry for entry in table if entry is not None]


Call = Callable[[], object]

# torch 2.13 gave both a new name, and warns of the old one.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True, kw_only=True)
class Circle:
    """The ranks that take part, and which of them this process is."""

    group: dist.ProcessGroup | None  # None is the world
    ranks: tuple[int, ...]  # of the world, in the order of the group. The first is the root.
    position: int
    device: torch.device

    @property
    def size(self) -> int:
        return len(self.ranks)


class Buffers:
    """Memory for the largest message, which all operations share: zeros, so that no sum ever overflows."""

    def __init__(self, most_bytes: int, device: torch.device) -> None:
        count = max(1, most_bytes // ELEMENT_BYTES)
        self.give = torch.zeros(count, device=device)
        self.take = torch.zeros(count, device=device)

    def of(self, operation: str, circle: Circle, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        gives, takes = lengths(operation, circle.position, circle.size, size)
        return self.give[:gives], self.take[:takes]


def prepared(operation: str, circle: Circle, give: torch.Tensor, take: torch.Tensor) -> Call:
    """The bare call of torch.distributed; it returns when the result may be used."""
    group, root = circle.group, circle.ranks[0]
    at_root = circle.position == 0
    calls: dict[str, Callable[[], Call]] = {
        "broadcast": lambda: lambda: dist.broadcast(give, root, group),
        "reduce": lambda: lambda: dist.reduce(give, root, group=group),
        "all_reduce": lambda: lambda: dist.all_reduce(give, group=group),
        "gather": lambda: _gather(circle, give, _parts(take, circle) if at_root else None),
        "all_gather": lambda: lambda: _all_gather(take, give, group),
        "scatter": lambda: _scatter(circle, take, _parts(give, circle) if at_root else None),
        "reduce_scatter": lambda: lambda: _reduce_scatter(take, give, group=group),
        "all_to_all": lambda: lambda: dist.all_to_all_single(take, give, group=group),
        "send_recv": lambda: ring_step(circle, give, take),
        "barrier": lambda: barrier(circle),
    }
    return calls[operation]()


def _parts(whole: torch.Tensor, circle: Circle) -> list[torch.Tensor]:
    return list(whole.chunk(circle.size))


def _gather(circle: Circle, give: torch.Tensor, parts: list[torch.Tensor] | None) -> Call:
    return lambda: dist.gather(give, parts, circle.ranks[0], circle.group)


def _scatter(circle: Circle, take: torch.Tensor, parts: list[torch.Tensor] | None) -> Call:
    return lambda: dist.scatter(take, parts, circle.ranks[0], circle.group)


def ring_step(circle: Circle, give: torch.Tensor, take: torch.Tensor) -> Call:
    """Every rank sends to the next one and receives from the one before, at once: what a ring is made of."""
    following = circle.ranks[(circle.position + 1) % circle.size]
    previous = circle.ranks[circle.position - 1]
    return exchange(circle.group, (give, following), (take, previous))


def exchange(
    group: dist.ProcessGroup | None, sent: tuple[torch.Tensor, int], received: tuple[torch.Tensor, int]
) -> Call:
    """One message out and one in, each with the rank of the world that it goes to or comes from."""
    send = dist.P2POp(dist.isend, *sent, group)
    receive = dist.P2POp(dist.irecv, *received, group)

    def both() -> None:
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()

    return both


def barrier(circle: Circle) -> Call:
    devices = [circle.device.index] if circle.device.type == "cuda" else None
    return lambda: dist.barrier(circle.group, device_ids=devices)


# --- contents ---------------------------------------------------------------------------------------------------------


def fill(operation: str, circle: Circle, size: int, give: torch.Tensor, take: torch.Tensor) -> None:
    """What this rank gives by the textbook; what it gets is wiped."""
    give.copy_(torch.from_numpy(given(operation, circle.position, circle.size, size)))
    take.fill_(-1)


def result(operation: str, give: torch.Tensor, take: torch.Tensor) -> torch.Tensor:
    return give if operation in {"broadcast", "reduce", "all_reduce"} else take


def is_right(operation: str, circle: Circle, size: int, held: torch.Tensor) -> bool:
    expected = due(operation, circle.position, circle.size, size)
    return expected is None or torch.equal(held.cpu(), torch.from_numpy(expected))
