"""The call that launched each piece of device work, by correlation id."""

import numpy as np

from redline.timeline.table import I32, I64, grouped
from redline.timeline.timeline import NONE
from redline.trace.columns import RawColumns


def launching_calls(raw: RawColumns) -> tuple[I32, I64]:
    """Row of the launching call for each row of the device work (-1 for none), and which had several to choose from.

    Ids should be unique, but ranks merged into one file share them and writers have reused them:
    with as many calls as pieces of work they pair in order; else the latest call before the work is taken.
    """
    calls, work = raw.calls, raw.device_work
    call_start = raw.spans.start_ns[calls.row]
    order = np.lexsort((call_start, calls.correlation))
    ids, starts, rows = calls.correlation[order], call_start[order], calls.row[order]
    first = np.searchsorted(ids, work.correlation, "left")
    last = np.searchsorted(ids, work.correlation, "right")
    known = (last > first) & (work.correlation > 0)
    chosen = first.copy()
    several = np.flatnonzero(known & (last - first > 1))
    work_start = raw.spans.start_ns[work.row]
    for _, places in grouped(work.correlation[several]):
        group = several[places]
        low, high = first[group[0]], last[group[0]]
        if len(group) == high - low:
            chosen[group] = np.arange(low, high)
        else:
            chosen[group] = np.maximum(low, low + np.searchsorted(starts[low:high], work_start[group], "right") - 1)
    launch = np.full(len(work), NONE, np.int32)
    launch[known] = rows[chosen[known]]
    return launch, several
