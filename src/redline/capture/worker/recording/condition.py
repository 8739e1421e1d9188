"""A condition that asks for a window: on a step, such as `step_time>1.5*median`, or on the load of a serving engine."""

from __future__ import annotations

import re
from bisect import bisect_left, insort

_OF_STEPS = re.compile(
    r"\s*step_time\s*>\s*(?P<number>[0-9]*\.?[0-9]+)\s*(?:(?P<unit>ns|us|ms|s)|\*\s*(?P<median>median))\s*"
)
_OF_LOAD = re.compile(r"\s*(?P<what>running|waiting)\s*>\s*(?P<number>[0-9]{1,9})\s*")
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_REMEMBERED = 64  # steps that the median is of
_LEAST = 8  # steps before a median means anything


def check_condition(text: str) -> None:
    """ValueError where it is none."""
    _matched(_OF_LOAD if is_of_load(text) else _OF_STEPS, text)


def is_of_load(text: str) -> bool:
    """The requests of an engine decide, and not the length of a step."""
    return _OF_LOAD.fullmatch(text) is not None


def _matched(grammar: re.Pattern[str], text: str) -> re.Match[str]:
    match = grammar.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no condition; write 'step_time>1.5*median' or 'step_time>200ms', or of a serving engine "
            "'running>8' or 'waiting>0'"
        )
    return match


class LoadCondition:
    """Becomes true when an engine gets busy: more than so many requests run, or wait."""

    def __init__(self, text: str) -> None:
        match = _matched(_OF_LOAD, text)
        self._is_of_running = match["what"] == "running"
        self._most = int(match["number"])
        self._was_met = False

    def became_met(self, running: int, waiting: int) -> bool:
        """Once, until it is no longer met: a busy hour asks for one window."""
        is_met = (running if self._is_of_running else waiting) > self._most
        became, self._was_met = is_met and not self._was_met, is_met
        return became


class Condition:
    """True of a step that has just ended if it is one to look at."""

    def __init__(self, text: str) -> None:
        match = _matched(_OF_STEPS, text)
        self._factor = float(match["number"])
        self._limit_ns = self._factor * _NS[match["unit"]] if match["unit"] else 0.0
        self._recent: list[int] = []
        self._sorted: list[int] = []

    def met(self, length_ns: int) -> bool:
        """The condition holds for this step, which is then remembered among the others."""
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
