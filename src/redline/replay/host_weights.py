"""How much of each time of a thread a scenario keeps: the altered timeline shortens what the change shortens.

Between two points of the graph a thread may load, compute and launch. Where the loader is gone, what is left of the
stretch is all of the rest, and not a bit less of everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class WeighedTime:
    """Times of some threads become `factor` times what they were."""

    time: Mapping[int, Intervals]  # by thread
    factor: float
    outside: bool = False  # what is not in these times does, of all threads


class ThreadWeights:
    """Time on one thread as a scenario has it: it runs slower or faster where the scenario changes what runs."""

    def __init__(self, lane: int, weighed: Sequence[WeighedTime]) -> None:
        own = [(one, one.time.get(lane, Intervals.empty())) for one in weighed]
        borders = [borders for one, time in own if len(time) for borders in (time.start, time.end)]
        self._at_ns = np.unique(np.concatenate([np.zeros(1, np.int64), *borders]))
        self._rate = np.ones(len(self._at_ns))
        for one, time in own:
            inside = time.contains(self._at_ns) if len(time) else np.zeros(len(self._at_ns), bool)
            self._rate[~inside if one.outside else inside] *= one.factor
        lengths = np.diff(self._at_ns) * self._rate[:-1]
        self._passed = np.concatenate([np.zeros(1), np.cumsum(lengths)])

    def __call__(self, time_ns: I64) -> Floats:
        """Weighed time that has passed by then."""
        place = np.clip(np.searchsorted(self._at_ns, time_ns, side="right") - 1, 0, len(self._at_ns) - 1)
        passed: Floats = self._passed[place] + (time_ns - self._at_ns[place]) * self._rate[place]
        return passed
