"""Spans chosen by their names, each distinct name looked at once."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from redline.timeline.table import I64
from redline.timeline.timeline import Timeline


def matching(timeline: Timeline, rows: I64, is_meant: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Which of the rows have a name that is meant."""
    names, place = np.unique(timeline.spans.name[rows], return_inverse=True)
    meant = np.array([is_meant(timeline.texts[name]) for name in names.tolist()], bool)
    chosen: npt.NDArray[np.bool_] = meant[place]
    return chosen
