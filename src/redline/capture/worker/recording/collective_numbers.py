"""How many collectives each process group has had, at the borders of a window: gloo writes no numbers of them."""

from __future__ import annotations

import sys

from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_BACKEND = "gloo"


class CollectiveNumberCollector:
    """Asks the groups of this process, which know without asking other ranks."""

    key = "groups"

    def __init__(self) -> None:
        self._opened: dict[str, int] = {}
        self._part: list[dict[str, object]] = []

    def window_opened(self) -> None:
        self._part = []
        self._opened = {name: number for name, _, number in _groups()}

    def step_ended(self) -> None:
        """Nothing: what counts is the whole window."""

    def window_closed(self) -> None:
        self._part = [
            {"name": name, "ranks": ranks, "opened": self._opened.get(name, 0), "closed": number}
            for name, ranks, number in _groups()
        ]

    def part(self) -> object:
        part, self._part = self._part, []
        return part or None

    def abandon(self) -> None:
        self._part = []


def _groups() -> Iterator[tuple[str, list[int], int]]:
    """Name, ranks and number of collectives so far of each group of gloo."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return
    torch: Any = sys.modules["torch"]
    for group, (backend, _) in list(c10d._world.pg_map.items()):
        if _BACKEND in str(backend):
            with tolerated(Exception):
                number = group._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
                yield group.group_name, c10d.get_process_group_ranks(group), number
