"""The same rows of a job on CPUs, where operators are the work, and exchanges run on threads of the backend.

thread     [a ][ask][b ]         [c ]       c began just after the exchange had ended: the thread waited for it
backend            [== exchange ==]
"""

import numpy as np

from redline.ledger.rank.activity import own_time_of_operators
from redline.ledger.rank.name_matching import matching
from redline.replay.recorded_order import RecordedWork, device_work, runs_on_cpu
from redline.timeline.table import I64, grouped, numbers_in
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema

_SHORTEST_PAUSE_NS = 50_000  # a thread that waits for an exchange does nothing else for longer
_AWAKE_NS = 500_000  # and computes again this soon after it; other ranks may have its core


def recorded_work(timeline: Timeline) -> RecordedWork:
    return cpu_work(timeline) if runs_on_cpu(timeline) else device_work(timeline)


def cpu_work(timeline: Timeline) -> RecordedWork:
    """Exchanges on threads of their own, the operators that asked for them, and the pauses in which one ended."""
    spans = timeline.spans
    exchanges = spans.rows_of(Kind.COMMUNICATION)
    operators = spans.rows_of(Kind.OPERATOR)
    lanes = np.array(numbers_in(spans.lane[operators]), np.int64)
    lanes = lanes[np.argsort(-np.bincount(spans.lane[operators], minlength=len(timeline.lanes))[lanes], kind="stable")]
    exchanges = exchanges[~np.isin(spans.lane[exchanges], lanes[:1])]
    asking = operators[matching(timeline, operators, schema.asks_for_exchange)]
    launch = _asked_by(spans.start_ns[asking], spans.start_ns[exchanges], asking)
    paused_ns, after = _pauses(timeline, spans.end_ns[exchanges], lanes)
    calls = np.concatenate([np.unique(launch[launch != NONE]), after])
    start_ns, end_ns = spans.start_ns[calls], spans.end_ns[calls]
    waits = np.arange(len(calls)) >= len(calls) - len(after)
    start_ns[waits], end_ns[waits] = paused_ns, spans.start_ns[after]
    order = np.argsort(calls, kind="stable")
    return RecordedWork(
        row=exchanges,
        start_ns=spans.start_ns[exchanges],
        end_ns=spans.end_ns[exchanges],
        lane=spans.lane[exchanges].astype(np.int64),
        launch=launch,
        calls=calls[order],
        call_start_ns=start_ns[order],
        call_end_ns=end_ns[order],
        waits=waits[order],
        asks=np.zeros(len(calls), bool),
        lanes=lanes,
        on_cpu=True,
    )


def _asked_by(asked_ns: I64, began_ns: I64, asking: I64) -> I64:
    """For each exchange the operator that asked for it: they begin in the order in which they are asked for, as far as
    as many were asked for before each as had begun."""
    if not len(asking):
        return np.full(len(began_ns), NONE)
    last = np.searchsorted(asked_ns, began_ns, side="right") - 1
    in_order = len(asking) - len(began_ns) + np.arange(len(began_ns))
    place = np.where((in_order >= 0) & (in_order <= last), in_order, last)
    return np.where(place >= 0, asking[place], NONE)


def _pauses(timeline: Timeline, ended_ns: I64, lanes: I64) -> tuple[I64, I64]:
    """Where a thread that had computed did so again just after an exchange had ended: since when it had not, and the
    operator with which it began again."""
    rows, start_ns, stop_ns = own_time_of_operators(timeline)
    lane = timeline.spans.lane[rows]
    ended_ns = np.sort(ended_ns)
    since, after = [], []
    for number, here in grouped(lane):
        if number not in lanes or not len(ended_ns):
            continue
        paused_ns, again_ns = stop_ns[here[:-1]], start_ns[here[1:]]
        done_ns = np.append(NONE, ended_ns)[np.searchsorted(ended_ns, again_ns, side="right")]
        waited = (done_ns - paused_ns > _SHORTEST_PAUSE_NS) & (again_ns - done_ns < _AWAKE_NS)
        is_beginning = start_ns[here[1:]] == timeline.spans.start_ns[rows[here[1:]]]
        since.append(paused_ns[waited & is_beginning])
        after.append(rows[here[1:][waited & is_beginning]])
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *since]), np.concatenate([empty, *after]).astype(np.int64)
