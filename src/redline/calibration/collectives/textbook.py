"""What each collective is by definition: how large its buffers are, what is in them before, and what after.

Sizes and bandwidths follow nccl-tests: the size is the larger of what a rank gives and what it gets; the bandwidth of
the algorithm is size / time, and that of the bus is what a link has to carry for it, so that it can be compared with
the hardware whatever the number of ranks. https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ELEMENT_BYTES = 4
_PERIOD = 1009  # a prime: parts that are swapped or shifted hardly ever look alike

Content = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One collective."""

    name: str
    bus_factor: Callable[[int], float]
    """Of so many ranks: bus bandwidth / bandwidth of the algorithm."""
    gives: str = "whole"
    """whole, part (1 / ranks of it) or nothing."""
    takes: str = "same"
    """whole, part or nothing; same where the result replaces what was given."""
    rooted: str = ""
    """gives or takes, where only the first rank of the group does."""

    @property
    def is_divided(self) -> bool:
        """Whether the size is made of one part per rank."""
        return "part" in {self.gives, self.takes} or self.name == "all_to_all"


def _one(_ranks: int) -> float:
    return 1.0


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


def _twice_others(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(name="broadcast", bus_factor=_one),
        Operation(name="reduce", bus_factor=_one),
        Operation(name="all_reduce", bus_factor=_twice_others),
        Operation(name="gather", bus_factor=_others, gives="part", takes="whole", rooted="takes"),
        Operation(name="all_gather", bus_factor=_others, gives="part", takes="whole"),
        Operation(name="scatter", bus_factor=_others, gives="whole", takes="part", rooted="gives"),
        Operation(name="reduce_scatter", bus_factor=_others, gives="whole", takes="part"),
        Operation(name="all_to_all", bus_factor=_others, gives="whole", takes="whole"),
        Operation(name="send_recv", bus_factor=_one, gives="whole", takes="whole"),
        Operation(name="barrier", bus_factor=_one, gives="nothing", takes="nothing"),
    )
}


def size_bytes(operation: str, ranks: int, about_bytes: int) -> int:
    """The size closest from above to what was asked for that is made of whole elements, and of equal parts."""
    if operation == "barrier":
        return 0
    unit = ELEMENT_BYTES * (ranks if OPERATIONS[operation].is_divided else 1)
    return max(1, -(-about_bytes // unit)) * unit


def lengths(operation: str, position: int, ranks: int, size: int) -> tuple[int, int]:
    """Elements of what the rank at this position of the group gives, and of what it gets beside it."""
    definition = OPERATIONS[operation]
    whole = size // ELEMENT_BYTES
    of = {"whole": whole, "part": whole // ranks, "nothing": 0, "same": 0}
    gives = of[definition.gives] if position == 0 or definition.rooted != "gives" else 0
    takes = of[definition.takes] if position == 0 or definition.rooted != "takes" else 0
    return gives, takes


def given(operation: str, position: int, ranks: int, size: int) -> Content:
    """What the rank gives: 10 times its position, counted up by one from element to element."""
    return _of_rank(position, 0, lengths(operation, position, ranks, size)[0])


def due(operation: str, position: int, ranks: int, size: int) -> Content | None:
    """What the rank must have afterwards; None where that is not defined. Sums are exact for up to 16 000 ranks."""
    whole = size // ELEMENT_BYTES
    part = whole // ranks
    own = position * part
    is_root = position == 0
    results: dict[str, Callable[[], Content | None]] = {
        "broadcast": lambda: _of_rank(0, 0, whole),
        "reduce": lambda: _sums(ranks, 0, whole) if is_root else None,
        "all_reduce": lambda: _sums(ranks, 0, whole),
        "gather": lambda: _of_all(ranks, 0, part) if is_root else _nothing(),
        "all_gather": lambda: _of_all(ranks, 0, part),
        "scatter": lambda: _of_rank(0, own, part),
        "reduce_scatter": lambda: _sums(ranks, own, part),
        "all_to_all": lambda: _of_all(ranks, own, part),
        "send_recv": lambda: _of_rank((position - 1) % ranks, 0, whole),
        "barrier": _nothing,
    }
    return results[operation]()


def _nothing() -> Content:
    return np.zeros(0, dtype=np.float32)


def _of_rank(rank: int, first: int, count: int) -> Content:
    period = (10 * rank + first + np.arange(_PERIOD)) % _PERIOD
    return np.resize(period.astype(np.float32), count)


def _of_all(ranks: int, first: int, count: int) -> Content:
    """The same part of what each rank gives, one after another."""
    return np.concatenate([_of_rank(rank, first, count) for rank in range(ranks)])


def _sums(ranks: int, first: int, count: int) -> Content:
    """What all ranks give, added up."""
    period = sum((10 * rank + first + np.arange(_PERIOD)) % _PERIOD for rank in range(ranks))
    return np.resize(np.asarray(period, dtype=np.float32), count)
