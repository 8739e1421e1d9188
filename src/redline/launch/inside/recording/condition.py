"""A condition on a step that asks for a window, such as `step_time>1.5*median`."""

from __future__ import annotations

import re
from bisect import bisect_left, insort

_GRAMMAR = re.compile(
    r"\s*step_time\s*>\s*(?P<number>[0-9]*\.?[0-9]+)\s*(?:(?P<unit>ns|us|ms|s)|\*\s*(?P<median>median))\s*"
)
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_REMEMBERED = 64  # steps that the median is of
_LEAST = 8  # steps before a median means anything


class Condition:
    """Whether the step that has just ended is one to look at."""

    def __init__(self, text: str) -> None:
        match = _GRAMMAR.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no condition; write 'step_time>1.5*median' or 'step_time>200ms'")
        self._factor = float(match["number"])
        self._limit_ns = self._factor * _NS[match["unit"]] if match["unit"] else 0.0
        self._recent: list[int] = []
        self._sorted: list[int] = []

    def met(self, length_ns: int) -> bool:
        """Whether the condition holds for this step; it is then remembered among the others."""
        if self._limit_ns:
            return length_ns > self._limit_ns
        ranked = self._sorted
        is_met = len(ranked) >= _LEAST and length_ns > self._factor * ranked[len(ranked) // 2]
        self._remember(length_ns)
        return is_met

    def _remember(self, length_ns: int) -> None:
        if not length_ns:
            return
        self._recent.append(length_ns)
        insort(self._sorted, length_ns)
        if len(self._recent) > _REMEMBERED:
            del self._sorted[bisect_left(self._sorted, self._recent.pop(0))]
