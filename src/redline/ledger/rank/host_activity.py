"""What the host's threads were doing while the device waited for them, down to the call site.

Recorded stacks tell it of everything, samples of what is not recorded otherwise.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from redline.ledger.accounts import Account
from redline.ledger.rank.activity import Mask, cut_at
from redline.ledger.rank.call_sites import NearestSites
from redline.ledger.rank.digest_limits import Count, Duration
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.idle import Idle
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import innermost_at, nearest_of, segments_under
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, NESTED_KINDS, NONE, Kind, Timeline
from redline.trace import schema
from redline.trace.call_sites import is_their_code
from redline.values import dataclass

OTHERS = "others"
HOST_ACCOUNTS = (Account.INPUT, Account.SYNC, Account.HOST)
_KIND_WORDS: dict[int, str] = {
    Kind.OPERATOR: "operator",
    Kind.PYTHON: "python",
    **dict.fromkeys(CALL_KINDS, "call"),
    NONE: "unrecorded",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HostActivity:
    """Idle time of the device that one kind of thing on the host accounts for."""

    account: Account
    kind: str  # operator, call, python; unrecorded: nothing was open on the thread; others: too many to tell apart
    name: str
    region: str  # the innermost annotation around it
    site: str  # the innermost function outside torch and the standard library, where stacks or samples tell it
    time_ns: Duration
    times: Count  # in how many separate stretches


def host_activities(timeline: Timeline, idle: Idle) -> tuple[HostActivity, ...]:
    """Everything that idle time is put down to, the largest first."""
    return added(row for lane, waiting in idle.of_lane.items() for row in _of_lane(timeline, idle, lane, waiting))


def added(rows: Iterable[HostActivity]) -> tuple[HostActivity, ...]:
    """Rows that say the same, of several threads or ranks, as one; the largest first."""
    sums: dict[tuple[Account, str, str, str, str], list[int]] = {}
    for row in rows:
        total = sums.setdefault((row.account, row.kind, row.name, row.region, row.site), [0, 0])
        total[0] += row.time_ns
        total[1] += row.times
    activities = (
        HostActivity(account=account, kind=kind, name=name, region=region, site=site, time_ns=time_ns, times=times)
        for (account, kind, name, region, site), (time_ns, times) in sums.items()
    )
    return tuple(
        sorted(activities, key=lambda activity: (-activity.time_ns, activity.name, activity.region, activity.site))
    )


def shortened(rows: Sequence[HostActivity], most: int) -> tuple[HostActivity, ...]:
    """The largest rows, and the rest added up by account and region under OTHERS, so that no time is lost."""
    if len(rows) <= most:
        return tuple(rows)
    rest = (replace(row, kind=OTHERS, name="", site="") for row in rows[most:])
    return added([*rows[:most], *rest])


def _of_lane(timeline: Timeline, idle: Idle, lane: int, waiting: Intervals) -> Iterator[HostActivity]:
    spans = timeline.spans
    rows = timeline.rows_of_lane(lane)
    rows = rows[np.isin(spans.kind[rows], np.array(NESTED_KINDS, np.uint8))]
    rows = rows[waiting.meets(spans.start_ns[rows], spans.end_ns[rows])]
    # What is around such a span overlaps too, so that parents are among the rows.
    place = np.full(len(spans) + 1, NONE, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    parent = place[spans.parent[rows]]
    start_ns, end_ns, inner = segments_under(spans.start_ns[rows], spans.end_ns[rows], parent)
    silent = waiting - Intervals.union_of(start_ns, end_ns)
    row = np.concatenate([rows[inner], np.full(len(silent), NONE)])
    start_ns, end_ns = np.concatenate([start_ns, silent.start]), np.concatenate([end_ns, silent.end])
    order = np.argsort(start_ns, kind="stable")  # it merges what is sorted already
    sampled = NearestSites(timeline.evidence)
    borders_ns = np.concatenate([_region_borders(timeline), sampled.borders_ns()])
    start_ns, end_ns, of = cut_at(borders_ns, start_ns[order], end_ns[order])
    row = row[order[of]]
    site = sites_of(timeline, row)
    if sampled.texts:
        nearest = sampled.at(start_ns, end_ns)
        site = np.where((row == NONE) & (nearest != NONE), nearest + len(timeline.texts), site)
    region = _regions(timeline, lane, start_ns)
    for account in HOST_ACCOUNTS:
        # Of the account's time only this lane's: another thread may answer for other parts of it.
        share = idle.accounts[account] & waiting
        used = np.flatnonzero(share.meets(start_ns, end_ns))
        if len(used):
            told = (row[used], region[used], site[used])
            yield from _summed(timeline, sampled, account, share, (start_ns[used], end_ns[used]), told)


def _summed(
    timeline: Timeline,
    sampled: NearestSites,
    account: Account,
    share: Intervals,
    stretches: tuple[I64, I64],
    told: tuple[I64, I64, I64],
) -> Iterator[HostActivity]:
    (start_ns, end_ns), (row, region, site), spans = stretches, told, timeline.spans
    kind = np.where(row != NONE, spans.kind[row].astype(np.int64), NONE)
    name = np.where(row != NONE, spans.name[row], NONE)
    keys, which = distinct(kind, name, region, site)
    time_ns = np.zeros(keys.shape[1], np.int64)
    np.add.at(time_ns, which, share.overlap_with(start_ns, end_ns))
    goes_on = np.append(False, (start_ns[1:] == end_ns[:-1]) & (which[1:] == which[:-1]))
    times = np.bincount(which[~goes_on], minlength=keys.shape[1])
    for key, total_ns, count in zip(keys.T.tolist(), time_ns.tolist(), times.tolist(), strict=True):
        yield HostActivity(
            account=account,
            kind=_KIND_WORDS[key[0]],
            name=timeline.text(key[1]),
            region=timeline.text(key[2]),
            site=timeline.text(key[3]) if key[3] < len(timeline.texts) else sampled.texts[key[3] - len(timeline.texts)],
            time_ns=total_ns,
            times=count,
        )


def sites_of(timeline: Timeline, rows: I64) -> I64:
    """Name of the innermost function that is neither torch's nor Python's around each row, NONE without one."""
    spans = timeline.spans
    python = spans.rows_of(Kind.PYTHON)
    theirs: Mask = np.zeros(len(spans), bool)
    theirs[python[matching(timeline, python, is_their_code)]] = True
    at = nearest_of(theirs, spans.parent, rows)
    return np.where(at != NONE, spans.name[at], _carried_sites(timeline, rows))


def _carried_sites(timeline: Timeline, rows: I64) -> I64:
    """The same, from stacks that operators carry themselves, as those of 2021 do."""
    spans, operators = timeline.spans, timeline.operators
    sites = np.full(len(spans) + 1, NONE, np.int64)  # NONE is the last one
    sites[operators.row] = operators.site
    return sites[nearest_of(sites[:-1] != NONE, spans.parent, rows)]


def _regions(timeline: Timeline, lane: int, at_ns: I64) -> I64:
    """Name of the innermost annotation at each time, of this thread or else of any; steps are not asked for."""
    spans, rows = timeline.spans, _region_rows(timeline)
    innermost = np.full(len(at_ns), NONE, np.int64)
    for chosen in (rows[spans.lane[rows] == lane], rows):
        missing = np.flatnonzero(innermost == NONE)
        inner = innermost_at(at_ns[missing], spans.start_ns[chosen], spans.end_ns[chosen])
        innermost[missing] = np.where(inner != NONE, np.append(spans.name[chosen], NONE)[inner], NONE)
    return innermost


def _region_borders(timeline: Timeline) -> I64:
    spans, rows = timeline.spans, _region_rows(timeline)
    return np.concatenate([spans.start_ns[rows], spans.end_ns[rows]])


def _region_rows(timeline: Timeline) -> I64:
    rows = timeline.spans.rows_of(Kind.ANNOTATION)
    return rows[~matching(timeline, rows, lambda name: name.startswith(schema.PROFILER_STEP))]
