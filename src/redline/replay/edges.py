"""Edges that say "not before that point plus a delay", what of a trace they explain, and what is left beyond them."""

from dataclasses import replace
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from redline.timeline.table import I32, I64, Column, Table, column
from redline.timeline.timeline import NONE
from redline.values import dataclass

MOST_UNEXPLAINED = 0.1  # share of device starts; above it, forecasts would rest on guesses
NEVER_NS = -(1 << 62)
FAR_NS = 1 << 62


class EdgeKind(IntEnum):
    """Why the head of an edge comes after its tail."""

    HOST = 1  # a thread went on: its own time, in calls and between them
    RETURN = 2  # the host's own part of a call that waits for the device
    LOADER = 3  # the next batch of workers that load as fast as they can; holds nothing up as it was measured
    LAUNCH = 4  # from the start of a launch to the work it launched
    STREAM = 5  # work of one stream runs in order; with a row: the next began while that row still ran
    EVENT = 6  # a stream waits for another
    DEVICE = 7  # a piece of device work, compute or copies
    TRANSFER = 8  # a piece of device work that moves data between ranks, or such a part of the host's
    WAIT = 9  # the host waits for the device, or for an exchange between ranks
    QUEUE = 10  # the host waits because the queue of launches is full
    PIN = 11  # from the beginning of the window: why it came no sooner is not recorded
    BORDER = 12  # the border of a step is that of the host or of the device, whichever is later
    ARRIVAL = 13  # the last rank has come to an exchange


class Edges(Table):
    """`head` comes no earlier than `tail` plus `delay_ns`."""

    tail: I32 = column(np.int32)  # numbers of points
    head: I32 = column(np.int32)
    delay_ns: I64 = column(np.int64)
    kind: Column = column(np.uint8)
    row: I32 = column(np.int32)  # the span that it stands for: device work or a call; NONE for none
    lane: Column = column(np.int32)  # the thread whose time it is; NONE for none

    @cached_property
    def by_head(self) -> tuple[I64, I64]:
        """Heads that have edges, ascending, and the first edge of each; edges must be in order of head."""
        first = np.flatnonzero(np.append(True, self.head[1:] != self.head[:-1])[: len(self)])
        return self.head[first].astype(np.int64), first


class EdgeList:
    """Edges as they are found, many at a time."""

    def __init__(self) -> None:
        self._parts: list[Edges] = []

    def add(
        self,
        kind: EdgeKind,
        tail: npt.ArrayLike,
        head: Column,
        delay_ns: npt.ArrayLike,
        row: npt.ArrayLike = NONE,
        lane: npt.ArrayLike = NONE,
    ) -> None:
        """One edge for each head; whatever is the same for all may be a single number."""
        size = len(head)
        values = {"tail": tail, "head": head, "delay_ns": delay_ns, "kind": int(kind), "row": row, "lane": lane}
        columns = {
            name: np.broadcast_to(np.asarray(values[name]), size).astype(dtype)
            for name, dtype in Edges.layout().items()
        }
        self._parts.append(Edges(**columns))

    def extend(self, others: "EdgeList") -> None:
        self._parts += others._parts

    def as_found(self) -> Edges:
        return joined_edges(self._parts) if self._parts else Edges.empty()

    def in_order_of_head(self) -> Edges:
        together = self.as_found()
        return together.take(np.argsort(together.head, kind="stable"))


def joined_edges(parts: list[Edges]) -> Edges:
    """All edges in one table, in the order given."""
    return Edges(**{name: np.concatenate([part.columns()[name] for part in parts]) for name in Edges.layout()})


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Starts of device work, and how they were explained."""

    starts: int
    unexplained: int  # began much later than everything that they are known to have waited for, or waited for nothing
    unexplained_ns: int  # how much later, together
    waits_recorded: int = 0  # waits of streams that the profiler recorded
    waits_inferred: int = 0  # told by the order of calls
    waits_guessed: int = 0  # told by time alone: something on another stream had just ended

    @property
    def share(self) -> float:
        """Of device starts that nothing explains."""
        return self.unexplained / max(self.starts, 1)


def arrivals_by_rule(edges: Edges, time_ns: I64) -> I64:
    """When each point would come by its edges, if all before it came as measured; NEVER_NS without an edge."""
    arrival_ns = np.full(len(time_ns), NEVER_NS)
    heads, first = edges.by_head
    if len(heads):
        arrival_ns[heads] = np.maximum.reduceat(time_ns[edges.tail] + edges.delay_ns, first)
    return arrival_ns


def with_residuals(edges: Edges, time_ns: I64) -> Edges:
    """Delays with which every point comes when it was measured.

    No edge holds its head up longer than that; and where all would let it come earlier, the one that decides is longer
    by what is left.
    """
    heads, first = edges.by_head
    if not len(heads):
        return edges
    measured_ns = time_ns[edges.head] - time_ns[edges.tail]
    by_rule_ns = time_ns[edges.tail] + edges.delay_ns
    delay_ns = np.minimum(edges.delay_ns, measured_ns)
    latest_ns = np.maximum.reduceat(by_rule_ns, first)
    decides = by_rule_ns == np.repeat(latest_ns, np.diff(np.append(first, len(edges))))
    _, decisive = np.unique(edges.head[decides], return_index=True)
    chosen = np.flatnonzero(decides)[decisive]
    early = latest_ns < time_ns[heads]
    delay_ns[chosen[early]] = measured_ns[chosen[early]]
    return replace(edges, delay_ns=delay_ns)
