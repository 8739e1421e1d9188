"""Which rank a span belongs to, where one file holds several: host spans by process, device spans by their launch."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I32, I64, grouped, numbers_in
from redline.timeline.timeline import CALL_KINDS, NONE, Kind
from redline.trace.column_builder import LaneKey
from redline.trace.columns import RawColumns, TableType
from redline.trace.link import launching_calls
from redline.trace.rank_claim import rank_from
from redline.trace.sanity import SIDE_TABLES, reindexed
from redline.trace.schema import RANK_PROCESS_NAME

_WORK_OF_HOST = (Kind.OPERATOR, *CALL_KINDS)
_WHOLE_LANE = 0.8  # share of a stream's launches by one process that makes the stream that process's
_MOST_RANKS = 64  # in a small file; a process with fewer spans than below may be one of so many ranks, no more
_LEAST_SPANS = 100
_LEAST_SHARE = 0.01  # of the largest process; a stray event or two does not make another rank


def by_process(raw: RawColumns, log: ProblemLog) -> list[tuple[int | str, RawColumns]]:
    """The columns of each process that ran work, with the device work that it launched."""
    homes = _Homes(raw)
    work = _working_processes(raw, homes)
    if len(work) < 2:
        return [(next(iter(work), NONE), raw)]
    ranks = _busiest(work, max(_MOST_RANKS, len(raw.spans) // _LEAST_SPANS))
    number = {process: index for index, process in enumerate(ranks)}
    number |= dict.fromkeys(work.keys() - number.keys(), len(ranks))
    lane_owner = np.array([_lane_owner(homes, lane, number) for lane in raw.lanes], np.int64)
    owner = _owners(raw, lane_owner)
    log.add(Reason.TOO_MANY_PROCESSES, int((owner == len(ranks)).sum()), example=f"{len(work)} processes ran operators")
    return list(zip(ranks, _parts(raw, owner, lane_owner, len(ranks)), strict=True))


def _busiest(work: dict[int | str, int], most: int) -> list[int | str]:
    """In order of first appearance."""
    if len(work) <= most:
        return list(work)
    kept = set(sorted(work, key=lambda process: -work[process])[:most])
    return [process for process in work if process in kept]


def named_rank(raw: RawColumns, process: int | str) -> int:
    """The rank that a process name states, as merging tools write it ("Rank 3"); -1 if none does."""
    for name in raw.process_names.get(process, ()):
        match = RANK_PROCESS_NAME.search(name)
        if match:
            return rank_from(match.group(1))
    return NONE


class _Homes:
    """The process that a process of the trace belongs to: devices named after a rank go with that rank's host."""

    def __init__(self, raw: RawColumns) -> None:
        self.rank = {process: named_rank(raw, process) for process in raw.process_names}
        self._first: dict[int, int | str] = {}
        for process, rank in self.rank.items():
            self._first.setdefault(rank, process)

    def named(self, process: int | str) -> bool:
        return self.rank.get(process, NONE) != NONE

    def of(self, process: int | str) -> int | str:
        return self._first[self.rank[process]] if self.named(process) else process


def _working_processes(raw: RawColumns, homes: _Homes) -> dict[int | str, int]:
    """Processes with a fair share of the operators and calls, or named as a rank, and how many of these they have."""
    at_work = np.isin(raw.spans.kind, np.array(_WORK_OF_HOST, np.uint8))
    work_per_lane = np.bincount(raw.spans.lane[at_work], minlength=len(raw.lanes)).tolist()
    spans_per_lane = np.bincount(raw.spans.lane, minlength=len(raw.lanes)).tolist()
    devices = _device_processes(raw)
    totals: dict[int | str, int] = {}
    for (process, _, _), work, spans in zip(raw.lanes, work_per_lane, spans_per_lane, strict=True):
        count = spans if homes.named(process) else work
        if count and (homes.named(process) or process not in devices):
            home = homes.of(process)
            totals[home] = totals.get(home, 0) + count
    least = _LEAST_SHARE * max(totals.values(), default=0)
    return {process: count for process, count in totals.items() if count >= least}


def _device_processes(raw: RawColumns) -> set[int | str]:
    """Processes with streams that only call, where others run operators: MTIA writes calls beside its streams."""
    operators = numbers_in(raw.spans.lane[raw.spans.rows_of(Kind.OPERATOR)])
    hosts = {raw.lanes[lane][0] for lane in operators}
    return {process for process, _, on_device in raw.lanes if on_device} - hosts if hosts else set()


def _owners(raw: RawColumns, lane_owner: I64) -> I64:
    """For each span the index of its process; what no process claims goes to the first."""
    owner = lane_owner[raw.spans.lane]
    launch, _ = launching_calls(raw)
    unclaimed = owner[raw.device_work.row] == NONE
    launcher = np.where(launch != NONE, owner[launch], NONE)
    owner[raw.device_work.row[unclaimed]] = launcher[unclaimed]
    _follow_the_lane(raw, owner)
    owner[owner == NONE] = 0
    return owner


def _lane_owner(homes: _Homes, lane: LaneKey, number: dict[int | str, int]) -> int:
    """The process of a thread; of a stream only where its process is named after a rank."""
    process, _, on_device = lane
    if on_device and not homes.named(process):
        return NONE
    return number.get(homes.of(process), NONE)


def _follow_the_lane(raw: RawColumns, owner: I64) -> None:
    """A stream belongs to one process as a whole if nearly all of its work does; ids that ranks share mislead a few.

    Only where processes share a stream's number (each with its own GPU 0), its work is told apart launch by launch.
    """
    streams = np.zeros(len(raw.lanes), bool)
    streams[raw.spans.lane[raw.device_work.row]] = True
    rows = np.flatnonzero(streams[raw.spans.lane])
    for _, places in grouped(raw.spans.lane[rows]):
        here = rows[places]
        known = owner[here][owner[here] != NONE]
        if not known.size:
            continue
        votes = np.bincount(known)
        whole = votes.max() >= _WHOLE_LANE * known.size
        owner[here if whole else here[owner[here] == NONE]] = votes.argmax()


def _parts(raw: RawColumns, owner: I64, lane_owner: I64, count: int) -> Iterator[RawColumns]:
    """The columns of each owner but the last. All are put in order of owner once, so that each part is a slice."""
    ordered = reindexed(raw, np.argsort(owner, kind="stable"))
    edges = np.searchsorted(np.sort(owner), np.arange(count + 1))
    memory, memory_edges = _by_owner(raw.memory, lane_owner, count)
    flows, flow_edges = _by_owner(raw.flows, lane_owner, count)
    for index in range(count):
        first, end = edges[index : index + 2].tolist()
        tables = {name: _rows_between(getattr(ordered, name), first, end) for name in SIDE_TABLES}
        part = replace(
            raw,
            spans=ordered.spans.take(slice(first, end)),
            memory=memory.take(slice(*memory_edges[index : index + 2])),
            flows=flows.take(slice(*flow_edges[index : index + 2])),
            **tables,
        )
        yield _with_own_lanes(part)


def _by_owner(table: TableType, lane_owner: I64, count: int) -> tuple[TableType, I64]:
    """A table in order of whose its lanes are, and where each owner's rows begin."""
    owner = lane_owner[table.columns()["lane"]]
    order = np.argsort(owner, kind="stable")
    return table.take(order), np.searchsorted(owner[order], np.arange(count + 1))


def _rows_between(table: TableType, first: int, end: int) -> TableType:
    """What a side table has of these spans, as a table of theirs alone."""
    row = table.columns()["row"]
    part = table.take(slice(*np.searchsorted(row, (first, end)).tolist()))
    return replace(part, row=part.columns()["row"] - np.int32(first))  # all have it


def _with_own_lanes(part: RawColumns) -> RawColumns:
    """Without the threads and streams of other processes."""
    used = np.unique(np.concatenate([part.spans.lane, part.memory.lane, part.flows.lane]))
    numbers = used.tolist()
    streams = {new: part.lane_streams[old] for new, old in enumerate(numbers) if old in part.lane_streams}
    return replace(
        part,
        lanes=[part.lanes[old] for old in numbers],
        lane_streams=streams,
        spans=replace(part.spans, lane=_places(used, part.spans.lane)),
        memory=replace(part.memory, lane=_places(used, part.memory.lane)),
        flows=replace(part.flows, lane=_places(used, part.flows.lane)),
    )


def _places(used: I32, lanes: I32) -> I32:
    return np.searchsorted(used, lanes).astype(np.int32)
