"""What a what-if changes: how long some work takes, on some ranks."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

import numpy as np

from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.values import dataclass


class Target(StrEnum):
    """Whose time a change is about."""

    KERNELS = "kernels"  # compute on the device; a pattern names a class of kernels or a part of their names
    COLLECTIVES = "collectives"  # transfers; waiting for a rank that is late stays
    NETWORK = "network"  # transfers but for their latency: half of it is a network of twice the bandwidth
    COPIES = "copies"  # copies and sets of memory on the device
    HOST = "host"  # what threads of the host do between calls, and the calls; waiting is not in it
    LOADER = "loader"  # time of the training thread in the data loader
    SYNC = "sync"  # blocking calls: the host no longer waits for the device in them
    OPERATOR = "operator"  # all of an operator's own: its time on the host, and the device work that it launched
    START = "start"  # how much later than the first a rank begins; 0 is a common start
    RANK = "rank"  # everything that a rank does, in the likeness of the other ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChange:
    """The time of the target becomes `factor` times what it was: 0 is gone, 0.5 is twice as fast, 1.25 is slower."""

    target: Target
    pattern: str = ""  # "" is all of the target
    factor: float = 0.0
    ranks: tuple[int, ...] = ()  # () is every rank
    like_others: bool = False  # instead of a factor: as long as the median of the other ranks
    workers: int = 0  # instead of a factor: batches come as fast as so many workers of the data loader make them


def _no_rows() -> I64:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpanChange:
    """Time of one rank that goes, told by spans and times of its timeline: what a fix saves there."""

    rank: int
    device_rows: I64 = field(default_factory=_no_rows)  # kernels, copies, sets and collectives, each row once
    saved_ns: I64 = field(default_factory=_no_rows)  # of each of these rows; all of it where that is no more
    host: Mapping[int, Intervals] = field(default_factory=dict)  # for each thread (lane) the time of its own that goes
    waits: I64 = field(default_factory=_no_rows)  # calls in which the host no longer waits for the device


Change = TimeChange | SpanChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Changes that are made together, under the words that asked for them."""

    name: str
    changes: tuple[Change, ...]
