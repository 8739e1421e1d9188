"""A scenario as timelines: every span where the replay puts it, so that they are read like any other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from redline.replay.forecast import JobReplay
from redline.replay.host_order import main_lane
from redline.replay.rank_graph import RankGraph
from redline.timeline.host_evidence import HostEvidence
from redline.timeline.table import I32, I64, Table, grouped
from redline.timeline.timeline import NONE, TABLES, StepWindows, Timeline, TimelineOrigin

_Moved = Callable[[I64], I64]


def altered_timelines(replay: JobReplay, timelines: Sequence[Timeline], scenario: int) -> tuple[Timeline, ...]:
    """The timelines of a job's ranks, in their order, in a scenario."""
    job = replay.job
    times_ns = replay.times_ns(scenario)
    firsts = job.first_point.tolist()
    return tuple(
        _altered(timeline, graph, times_ns[first : first + len(graph)] - shift)
        for timeline, graph, first, shift in zip(timelines, job.graphs, firsts, job.shift_ns.tolist(), strict=False)
    )


def _altered(timeline: Timeline, graph: RankGraph, times_ns: I64) -> Timeline:
    """Device work is where its points are; on a thread, what lies between two points is moved in proportion."""
    spans = timeline.spans
    by_lane = _moves(timeline, graph, times_ns)
    home = main_lane(timeline, np.unique(spans.lane[graph.call_row]), timeline.device_work.launch)
    usual = by_lane.get(home) or _move(graph.time_ns, times_ns)
    start_ns, end_ns = spans.start_ns.copy(), spans.end_ns.copy()
    for lane, rows in grouped(spans.lane):
        move = by_lane.get(lane, usual)
        start_ns[rows], end_ns[rows] = move(spans.start_ns[rows]), move(spans.end_ns[rows])
    start_ns[graph.work_row], end_ns[graph.work_row] = times_ns[graph.work_start], times_ns[graph.work_end]
    dur_ns = np.maximum(end_ns - start_ns, 0)
    order = np.lexsort((-dur_ns, start_ns))
    place = np.empty(len(order) + 1, np.int32)
    place[order], place[NONE] = np.arange(len(order)), NONE
    moved = replace(spans, start_ns=start_ns, dur_ns=dur_ns, parent=place[spans.parent]).take(order)
    tables: dict[str, Any] = {
        name: _renumbered(getattr(timeline, name), place) for name in TABLES if name not in _OF_TIMES
    }
    at_ns = usual(timeline.memory.at_ns)
    return replace(
        timeline,
        origin=TimelineOrigin.ALTERED,
        spans=moved,
        memory=replace(timeline.memory, at_ns=at_ns).take(np.argsort(at_ns, kind="stable")),
        steps=_steps(timeline.steps, usual),
        evidence=HostEvidence(),
        **tables,
    )


_OF_TIMES = ("spans", "memory", "steps")


def _moves(timeline: Timeline, graph: RankGraph, times_ns: I64) -> dict[int, _Moved]:
    """For each thread and stream with points, from when to when each time is moved."""
    ended = np.flatnonzero(graph.call_end != NONE)
    rows = np.concatenate([graph.work_row, graph.work_row, graph.call_row, graph.call_row[ended]])
    points = np.concatenate([graph.work_start, graph.work_end, graph.call_start, graph.call_end[ended]])
    lane = np.concatenate([timeline.spans.lane[rows], graph.mark_lane])
    points = np.concatenate([points, graph.mark_point])
    return {number: _move(graph.time_ns[points[here]], times_ns[points[here]]) for number, here in grouped(lane)}


def _move(before_ns: I64, after_ns: I64) -> _Moved:
    """In proportion between points; beyond them as far as the first or the last was moved."""
    order = np.lexsort((after_ns, before_ns))
    before, after = before_ns[order], np.maximum.accumulate(after_ns[order])
    kept = np.append(before[1:] != before[:-1], True)[: len(before)]
    before, after = before[kept], after[kept]

    def moved(time_ns: I64) -> I64:
        low = np.clip(np.searchsorted(before, time_ns, side="right") - 1, 0, len(before) - 1)
        high = np.minimum(low + 1, len(before) - 1)
        length = np.maximum(before[high] - before[low], 1)
        share = np.where(high > low, (time_ns - before[low]) / length, 0.0)
        inside: I64 = after[low] + np.rint(share * (after[high] - after[low])).astype(np.int64)
        outside = np.where(time_ns < before[0], time_ns - before[0] + after[0], time_ns - before[-1] + after[-1])
        return np.where((time_ns < before[0]) | (time_ns > before[-1]), outside, inside)

    return moved


def _renumbered(table: Table, place: I32) -> Table:
    """A table whose rows of spans have these places now."""
    into_spans = [name for name, into in table.places().items() if into == "spans"]
    moved = replace(table, **{name: place[table.columns()[name]] for name in into_spans})
    return moved.take(np.argsort(moved.columns()["row"], kind="stable"))


def _steps(steps: StepWindows, moved: _Moved) -> StepWindows:
    start_ns, end_ns = moved(steps.start_ns), moved(steps.end_ns)
    if len(start_ns):
        end_ns = np.maximum(end_ns, start_ns)
        end_ns[:-1] = np.minimum(end_ns[:-1], start_ns[1:])
    return replace(steps, start_ns=start_ns, end_ns=end_ns)
