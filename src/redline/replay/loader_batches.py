"""When batches reach the training loop, and how long one worker of the data loader takes to make one."""

from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind, Timeline
from redline.trace import schema

_WAITED_NS, _WAITED_SHARE = 1_000_000, 0.05  # taking a batch that is there takes less, also as a share of the interval
NOT_COUNTED = "the trace does not say how many workers the data loader has"
NOT_WAITED = "the loop does not wait for the workers of its data loader, so what a batch takes them does not show"


@dataclass(frozen=True, kw_only=True)
class LoaderBatches:
    """The calls in which a thread got its batches, in order."""

    lane: int
    end_ns: I64
    worker_ns: float = 0.0  # what one worker takes for a batch
    why_unknown: str = ""  # why that is not known


def loader_batches(timeline: Timeline) -> LoaderBatches | None:
    """Of the thread with most batches; None where none loads two."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    rows = rows[matching(timeline, rows, schema.is_data_loader)]
    lane = int(np.bincount(spans.lane[rows]).argmax()) if len(rows) else 0
    rows = rows[spans.lane[rows] == lane]
    calls = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    if len(calls) < 2:
        return None
    start_ns, end_ns = calls.start, calls.end
    if matching(timeline, rows, schema.is_loader_in_process).all():
        return LoaderBatches(lane=lane, end_ns=end_ns, worker_ns=float((end_ns - start_ns).mean()))
    loaders = timeline.evidence.facts.loaders
    workers = loaders[0].workers if len(loaders) == 1 else 0
    interval_ns = float(end_ns[-1] - end_ns[0]) / (len(calls) - 1)
    waited = end_ns - start_ns > max(_WAITED_NS, _WAITED_SHARE * interval_ns)
    if not workers:
        return LoaderBatches(lane=lane, end_ns=end_ns, why_unknown=NOT_COUNTED)
    if not _in_each_round(waited, workers):
        return LoaderBatches(lane=lane, end_ns=end_ns, why_unknown=NOT_WAITED)
    return LoaderBatches(lane=lane, end_ns=end_ns, worker_ns=workers * interval_ns)


def _in_each_round(waited: Mask, workers: int) -> bool:
    """Whether the loop waited for one of any so many batches in a row: workers in step bring theirs together."""
    before = np.append(0, np.cumsum(waited))
    return len(waited) > workers and bool((before[workers:] > before[:-workers]).all())
