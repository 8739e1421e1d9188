"""Spans chosen by their names, each distinct name looked at once."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from redline.timeline.table import I32, I64
from redline.timeline.timeline import Timeline


def matching(timeline: Timeline, rows: I64 | I32, is_meant: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Which of the rows have a name that is meant."""
    name = timeline.spans.name[rows]
    meant = np.zeros(len(timeline.texts) + 1, bool)  # NONE is the last one
    for number in np.flatnonzero(np.bincount(name + 1)).tolist():  # many times faster than np.unique
        meant[number - 1] = number > 0 and is_meant(timeline.texts[number - 1])
    chosen: npt.NDArray[np.bool_] = meant[name] if meant.any() else np.zeros(len(name), bool)
    return chosen
