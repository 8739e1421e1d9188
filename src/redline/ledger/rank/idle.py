"""Why the device was idle, by correlation: which thread should have launched what came next, and what it did instead.

A gap ends with a piece of work. From the moment that piece was submitted, the gap is `queue`: the device had work and
did not run it. Before that, the gap belongs to the thread that made the launch: in a data loader it is `input`, in a
call that blocks on the device `sync`, else `host`. A thread with nothing recorded may have waited for another (the
backward thread for the main one), so then the other threads are asked.
"""

from collections.abc import Collection, Mapping

import numpy as np

from redline.ledger.accounts import IDLE, Account
from redline.ledger.rank.activity import DeviceActivity, loader_time, working_lanes
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

_ACTIVE_KINDS = (Kind.OPERATOR, Kind.PYTHON, Kind.ANNOTATION, *CALL_KINDS)
NOBODY = NONE  # instead of a lane


@dataclass(frozen=True, kw_only=True)
class Idle:
    """Idle time by account, and by the thread that it is put down to."""

    accounts: Mapping[Account, Intervals]  # all of IDLE; disjoint; together the idle time of the activity
    of_lane: Mapping[int, Intervals]  # input, sync and host
    next_row: I64  # for each stretch of the activity's idle time the device work that ended it; NONE after the last


def idle_of(timeline: Timeline, activity: DeviceActivity) -> Idle:
    waits = _cpu_waits(timeline, activity) if activity.device == "cpu" else _gpu_waits(timeline, activity)
    host = _Host(timeline)
    accounts_of_lane = {
        lane: host.accounts_of(lane, waiting, is_launcher=activity.device == "gpu")
        for lane, waiting in waits.items()
        if lane != NOBODY
    }
    by_account = {
        account: _all_of([parts[account] for parts in accounts_of_lane.values() if account in parts])
        for account in IDLE
    }
    of_lane = {
        lane: _all_of([part for account, part in parts.items() if account != Account.OTHER])
        for lane, parts in accounts_of_lane.items()
    }
    explained = (
        by_account[Account.INPUT] | by_account[Account.SYNC] | by_account[Account.HOST] | by_account[Account.OTHER]
    )
    queued = waits.get(NOBODY, Intervals.empty())
    by_account[Account.QUEUE] = queued - explained
    by_account[Account.OTHER] |= activity.idle - explained - queued
    return Idle(accounts=by_account, of_lane=of_lane, next_row=_next_work(activity, activity.idle))


# --- whom a gap waited for --------------------------------------------------------------------------------------------


def _gpu_waits(timeline: Timeline, activity: DeviceActivity) -> dict[int, Intervals]:
    """Idle time by the lane that had still to launch; under NOBODY what was already submitted."""
    gaps = activity.idle
    row = _next_work(activity, gaps)
    call, submitted_ns = _submissions(timeline, row)
    known = call != NONE
    ready_ns = np.clip(submitted_ns, gaps.start, gaps.end)
    lane = np.where(known, timeline.spans.lane[call], NOBODY)
    waits = {
        number: Intervals.union_of(gaps.start[here], ready_ns[here])
        for number, places in grouped(lane[known])
        for here in (np.flatnonzero(known)[places],)
    }
    waits[NOBODY] = Intervals.union_of(ready_ns[known], gaps.end[known])
    last = _main_lane(timeline)
    if last != NONE and len(gaps) and row[-1] == NONE:  # after the last piece: what was to come is not recorded
        waits[last] = waits.get(last, Intervals.empty()) | Intervals(gaps.start[-1:], gaps.end[-1:])
    return waits


def _next_work(activity: DeviceActivity, gaps: Intervals) -> I64:
    """The piece of work that ends each gap; NONE for the gap after the last."""
    pieces = (activity.compute, activity.communication, activity.copies)
    start_ns = np.concatenate([piece.start_ns[piece.dur_ns > 0] for piece in pieces])
    rows = np.concatenate([piece.row[piece.dur_ns > 0] for piece in pieces])
    order = np.argsort(start_ns, kind="stable")
    at = np.searchsorted(start_ns[order], gaps.end)
    return np.append(rows[order], NONE)[at]


def _submissions(timeline: Timeline, rows: I64) -> tuple[I64, I64]:
    """The call that launched each row (NONE if not known), and when the device had it at the latest.

    Work without a launch was launched before the next work of its stream, as streams keep their order.
    """
    spans, work = timeline.spans, timeline.device_work
    launch = launch_or_next(timeline)
    place = np.searchsorted(work.row, rows)
    call = np.full(len(rows), NONE, np.int64)
    call[rows != NONE] = launch[place[rows != NONE]]
    known = call != NONE
    submitted_ns = np.where(known, spans.end_ns[call], 0)
    # A copy that returns after the copy is done had been submitted when it was called.
    blocking = known & (submitted_ns >= spans.end_ns[rows]) & np.isin(spans.kind[rows], (Kind.COPY, Kind.SET))
    return call, np.where(blocking, spans.start_ns[call], submitted_ns)


def launch_or_next(timeline: Timeline) -> I64:
    """For each piece of device work its launch, else that of the next piece on its stream that has one."""
    work = timeline.device_work
    launch = work.launch.astype(np.int64)
    lane = timeline.spans.lane[work.row]
    for _, here in grouped(lane):
        have = np.flatnonzero(launch[here] != NONE)
        following = np.searchsorted(have, np.arange(len(here)))
        launch[here] = np.append(launch[here[have]], NONE)[following]
    return launch


def _main_lane(timeline: Timeline) -> int:
    """The thread that launched most, else the one with most operators; NONE without either."""
    spans, launch = timeline.spans, timeline.device_work.launch
    rows = launch[launch != NONE] if (launch != NONE).any() else spans.rows_of(Kind.OPERATOR)
    return int(np.bincount(spans.lane[rows]).argmax()) if len(rows) else NONE


def _cpu_waits(timeline: Timeline, activity: DeviceActivity) -> dict[int, Intervals]:
    """On a CPU everything waits for the main thread, as long as that one exists."""
    main = _main_lane(timeline)
    if main == NONE:
        return {}
    spans = timeline.spans
    rows = np.flatnonzero((spans.lane == main) & np.isin(spans.kind, np.array(_ACTIVE_KINDS, np.uint8)))
    return {main: activity.idle.clip(int(spans.start_ns[rows].min()), int(spans.end_ns[rows].max()))}


# --- what a thread did ------------------------------------------------------------------------------------------------


class _Host:
    """When each thread of the host loaded data, was blocked, or did anything that was recorded."""

    def __init__(self, timeline: Timeline) -> None:
        self._loading = loader_time(timeline)
        self._blocked = _blocked_time(timeline)
        self._timeline = timeline
        working = working_lanes(timeline)  # nobody waits for a watchdog
        by_number = set(working.tolist())
        self._any_active = _time_of(timeline, np.flatnonzero(np.isin(timeline.spans.lane, working)))
        self._any_loading = _all_of(self._loading.values())
        self._any_blocked = _all_of([time for lane, time in self._blocked.items() if lane in by_number])
        self._end_ns = _last_launch_end_ns(timeline)

    def accounts_of(self, lane: int, waiting: Intervals, *, is_launcher: bool) -> dict[Account, Intervals]:
        """The waiting time by what the thread did.

        What a launcher does until its last launch is the host's account, recorded or not: Python between two operators
        leaves no trace of its own. After the last launch, only what is recorded can be put down to the host.
        """
        loading = waiting & self._loading.get(lane, Intervals.empty())
        blocked = (waiting & self._blocked.get(lane, Intervals.empty())) - loading
        rest = waiting - loading - blocked
        silent = rest - self._active(lane)
        loading |= silent & self._any_loading
        blocked |= (silent & self._any_blocked) - loading
        rest = rest - loading - blocked
        unknown = Intervals.empty()
        if is_launcher and len(rest):
            unknown = rest.clip(self._end_ns, max(self._end_ns, int(rest.end[-1]))) - self._any_active
        return {
            Account.INPUT: loading,
            Account.SYNC: blocked,
            Account.HOST: rest - unknown,
            Account.OTHER: unknown,
        }

    def _active(self, lane: int) -> Intervals:
        """Operators, calls and Python; a region around them says nothing of what its thread does."""
        rows = self._timeline.rows_of_lane(lane)
        return _time_of(self._timeline, rows[self._timeline.spans.kind[rows] != Kind.ANNOTATION])


def _time_of(timeline: Timeline, rows: I64) -> Intervals:
    """When any of these spans was open, as far as they are of the host."""
    spans = timeline.spans
    rows = rows[np.isin(spans.kind[rows], np.array(_ACTIVE_KINDS, np.uint8))]
    return Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])


def _last_launch_end_ns(timeline: Timeline) -> int:
    launch = timeline.device_work.launch
    launch = launch[launch != NONE]
    return int(timeline.spans.end_ns[launch].max()) if len(launch) else timeline.window_ns[0]


def _blocked_time(timeline: Timeline) -> dict[int, Intervals]:
    """When each thread was in a call that waits for the device."""
    spans, work = timeline.spans, timeline.device_work
    calls = spans.rows_of(*CALL_KINDS)
    waits = calls[matching(timeline, calls, schema.is_blocking_call)]
    copies = (work.launch != NONE) & np.isin(spans.kind[work.row], (Kind.COPY, Kind.SET))
    launch, done_ns = work.launch[copies], spans.end_ns[work.row[copies]]
    late = spans.end_ns[launch] > done_ns  # the call outlived its copy: it had waited for it
    lane = np.concatenate([spans.lane[waits], spans.lane[launch[late]]])
    start_ns = np.concatenate([spans.start_ns[waits], np.maximum(done_ns, spans.start_ns[launch])[late]])
    end_ns = np.concatenate([spans.end_ns[waits], spans.end_ns[launch[late]]])
    return {number: Intervals.union_of(start_ns[here], end_ns[here]) for number, here in grouped(lane)}


def _all_of(every: Collection[Intervals]) -> Intervals:
    if not every:
        return Intervals.empty()
    return Intervals.union_of(
        np.concatenate([intervals.start for intervals in every]), np.concatenate([intervals.end for intervals in every])
    )
