"""Which rank a span belongs to, where one file holds several: host spans by process, device spans by their launch."""

from dataclasses import replace

import numpy as np

from redline.timeline.table import I64, Column
from redline.timeline.timeline import CALL_KINDS, NONE, Kind
from redline.trace.columns import RawColumns
from redline.trace.correlate import launching_calls
from redline.trace.growing import LaneKey
from redline.trace.ranks import rank_from
from redline.trace.sanity import reindexed
from redline.trace.schema import RANK_PROCESS_NAME

_WORK_OF_HOST = (Kind.OPERATOR, *CALL_KINDS)
_WHOLE_LANE = 0.8  # share of a stream's launches by one process that makes the stream that process's
_LEAST_SHARE = 0.01  # of the largest process; a stray event or two does not make another rank


def by_process(raw: RawColumns) -> list[tuple[int | str, RawColumns]]:
    """The columns of each process that ran work, with the device work that it launched."""
    processes = _working_processes(raw)
    if len(processes) < 2:
        return [(processes[0] if processes else NONE, raw)]
    number = {process: index for index, process in enumerate(processes)}
    lane_owner = np.array([_lane_owner(raw, lane, number) for lane in raw.lanes], np.int64)
    owner = _owners(raw, lane_owner)
    return [(process, _part(raw, owner, lane_owner, index)) for index, process in enumerate(processes)]


def named_rank(raw: RawColumns, process: int | str) -> int:
    """The rank that a process name states, as merging tools write it ("Rank 3"); -1 if none does."""
    for name in raw.process_names.get(process, ()):
        match = RANK_PROCESS_NAME.search(name)
        if match:
            return rank_from(match.group(1))
    return NONE


def _home(raw: RawColumns, process: int | str) -> int | str:
    """The process that a process of the trace belongs to: devices named after a rank go with that rank's host."""
    rank = named_rank(raw, process)
    if rank == NONE:
        return process
    return next(other for other in raw.process_names if named_rank(raw, other) == rank)


def _working_processes(raw: RawColumns) -> list[int | str]:
    """Processes with a fair share of the operators and calls, or named as a rank; in order of first appearance."""
    at_work = np.isin(raw.spans.kind, np.array(_WORK_OF_HOST, np.uint8))
    work_per_lane = np.bincount(raw.spans.lane[at_work], minlength=len(raw.lanes)).tolist()
    spans_per_lane = np.bincount(raw.spans.lane, minlength=len(raw.lanes)).tolist()
    totals: dict[int | str, int] = {}
    for (process, _, _), work, spans in zip(raw.lanes, work_per_lane, spans_per_lane, strict=True):
        count = spans if named_rank(raw, process) != NONE else work
        if count:
            home = _home(raw, process)
            totals[home] = totals.get(home, 0) + count
    least = _LEAST_SHARE * max(totals.values(), default=0)
    return [process for process, count in totals.items() if count >= least]


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


def _lane_owner(raw: RawColumns, lane: LaneKey, number: dict[int | str, int]) -> int:
    """The process of a thread; of a stream only where its process is named after a rank."""
    process, _, on_device = lane
    if on_device and named_rank(raw, process) == NONE:
        return NONE
    return number.get(_home(raw, process), NONE)


def _follow_the_lane(raw: RawColumns, owner: I64) -> None:
    """A stream belongs to one process as a whole if nearly all of its work does; ids that ranks share mislead a few.

    Only where processes share a stream's number (each with its own GPU 0), its work is told apart launch by launch.
    """
    for lane in np.unique(raw.spans.lane[raw.device_work.row]).tolist():
        here = np.flatnonzero(raw.spans.lane == lane)
        known = owner[here][owner[here] != NONE]
        if not known.size:
            continue
        votes = np.bincount(known)
        whole = votes.max() >= _WHOLE_LANE * known.size
        owner[here if whole else here[owner[here] == NONE]] = votes.argmax()


def _part(raw: RawColumns, owner: Column, lane_owner: Column, index: int) -> RawColumns:
    part = reindexed(raw, np.flatnonzero(owner == index))
    lanes = np.flatnonzero(lane_owner == index)
    return replace(
        part,
        memory=raw.memory.take(np.isin(raw.memory.lane, lanes)),
        flows=raw.flows.take(np.isin(raw.flows.lane, lanes)),
    )
