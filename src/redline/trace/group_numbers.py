"""Numbers of collectives that the backend did not write, from how many its group had when the window began."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from redline.timeline.host_evidence import GroupCount
from redline.timeline.timeline import NONE, Timeline
from redline.trace import schema


def numbered(timeline: Timeline, texts: Sequence[str]) -> Timeline:
    """Where only one group was at work, and had as many collectives as there are in the trace: in order of start.

    Of several groups nothing in the trace tells which collective is whose.
    """
    at_work = [group for group in timeline.evidence.groups if group.closed > group.opened]
    comms = timeline.communications
    names = timeline.spans.name[comms.row].tolist()
    counted = np.flatnonzero([schema.is_counted_by_group(texts[name]) for name in names])
    if len(at_work) != 1 or not _agrees(at_work[0], len(counted)) or (comms.sequence[counted] != NONE).any():
        return timeline
    sequence = comms.sequence.astype(np.int64)
    sequence[counted] = at_work[0].opened + np.arange(len(counted))
    return replace(timeline, communications=replace(comms, sequence=sequence))


def _agrees(group: GroupCount, counted: int) -> bool:
    return group.opened >= 0 and group.closed - group.opened == counted
