"""Which kernels hide exchanges: what ran on the device while they did."""

from dataclasses import dataclass

import numpy as np

from redline.timeline.intervals import Intervals
from redline.timeline.table import grouped
from redline.timeline.timeline import Kind, Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Hiding:
    """How long a kernel ran while an exchange did."""

    exchange: str
    kernel: str
    time_ns: int


def hiding_kernels(timeline: Timeline) -> tuple[Hiding, ...]:
    """Kernels that ran while each kind of exchange did, the longest first: what hides it."""
    spans, comms = timeline.spans, timeline.communications
    kernels = spans.rows_of(Kind.KERNEL)
    hidings = []
    for kind, here in grouped(comms.collective):
        rows = comms.row[here]
        during = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
        hidden_ns = during.overlap_with(spans.start_ns[kernels], spans.end_ns[kernels])
        sums = np.bincount(spans.name[kernels], weights=hidden_ns, minlength=len(timeline.texts))
        hidings += [
            Hiding(exchange=timeline.text(kind), kernel=timeline.texts[name], time_ns=int(sums[name]))
            for name in np.flatnonzero(sums).tolist()
        ]
    return tuple(sorted(hidings, key=lambda hiding: (-hiding.time_ns, hiding.exchange, hiding.kernel)))
