"""Runs of Python's garbage collector while a window is open, with their length.

The callback is made of functions in C alone. Python delivers a signal that arrived during a collection in the next
bytecode that it runs: in a callback written in Python, whose exceptions are printed and dropped, so that the script
would miss what its handler raises.
"""

from __future__ import annotations

import gc
from collections import deque
from functools import partial
from itertools import cycle
from operator import call
from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SHORTEST_NS = 100_000  # a young collection takes less, and there may be thousands
_MOST_RUNS = 5_000
_PER_RUN = 4  # entries: time and counters when it starts, and the same when it stops


class GcRunCollector:
    """The callback is in Python's list only while a window is open."""

    key = "collections"

    def __init__(self) -> None:
        self._entries: deque[Any] = deque(maxlen=_PER_RUN * _MOST_RUNS)
        self._callback: Callable[..., object] | None = None

    def window_opened(self) -> None:
        self.abandon()
        self._entries = deque(maxlen=_PER_RUN * _MOST_RUNS)
        self._callback = _recorder(self._entries)
        gc.callbacks.append(self._callback)

    def step_ended(self) -> None:
        """Nothing to do."""

    def window_closed(self) -> None:
        self.abandon()

    def part(self) -> object:
        columns: dict[str, list[int]] = {"begin_ns": [], "dur_ns": [], "generation": [], "collected": []}
        entries = list(self._entries)
        self._entries.clear()
        for at in range(0, len(entries) - _PER_RUN + 1, _PER_RUN):
            begin_ns, before, end_ns, after = entries[at : at + _PER_RUN]
            if end_ns - begin_ns >= _SHORTEST_NS:
                columns["begin_ns"].append(begin_ns)
                columns["dur_ns"].append(end_ns - begin_ns)
                columns["generation"].append(_oldest_collected(before, after))
                columns["collected"].append(_total(after, "collected") - _total(before, "collected"))
        return columns

    def abandon(self) -> None:
        """Out of the list, by identity: comparing would call the script's own callbacks."""
        callback, self._callback = self._callback, None
        for at, one in enumerate(gc.callbacks):
            if callback is not None and one is callback:
                del gc.callbacks[at]
                break


def _recorder(entries: deque[Any]) -> Callable[..., object]:
    """A callable for `gc.callbacks`: each call adds the time and the collector's counters to the entries.

    `max` calls its key for both arguments of the callback, and the key takes the next item of an iterator whose items
    are made by calling `time_ns` and `gc.get_stats` in turn.
    """
    stamps = map(call, cycle((time_ns, gc.get_stats)))
    return partial(max, key=partial(next, map(bool, map(entries.append, stamps))))


def _oldest_collected(before: list[dict[str, int]], after: list[dict[str, int]]) -> int:
    """The generation whose number of collections went up; -1 where none did."""
    for generation in reversed(range(min(len(before), len(after)))):
        if after[generation]["collections"] > before[generation]["collections"]:
            return generation
    return -1


def _total(stats: list[dict[str, int]], name: str) -> int:
    return sum(one[name] for one in stats)
