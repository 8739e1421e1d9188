"""A scenario as timelines: every span where the replay puts it, so that they are read like any other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from redline.replay.forecast import ScenarioReplay
from redline.replay.job_graph import JobGraph
from redline.replay.rank_graph import RankGraph
from redline.replay.recorded_order import main_lane
from redline.replay.what_changes import Floats, ThreadWeights, WeighedTime, weighed_times
from redline.timeline.host_evidence import HostEvidence
from redline.timeline.table import I32, I64, Table, grouped
from redline.timeline.timeline import NONE, TABLES, StepWindows, Timeline, TimelineOrigin

_Moved = Callable[[I64], I64]
MADE_BY = "redline diagnose --what-if"


def altered_timeline(timeline: Timeline, job: JobGraph, place: int, scenario: ScenarioReplay) -> Timeline:
    """The timeline of the rank at this place of the job, in a scenario, on its own clock."""
    first, graph = int(job.first_point[place]), job.graphs[place]
    times_ns = scenario.times_ns[first : first + len(graph)] - job.shift_ns[place]
    changes = (*timeline.changes, scenario.forecast.scenario.name)
    metadata = replace(timeline.metadata, changes=changes, synthetic=timeline.metadata.synthetic or MADE_BY)
    weighed = weighed_times(timeline, graph, scenario.forecast.scenario)
    return replace(_moved(timeline, graph, times_ns, weighed), origin=TimelineOrigin.ALTERED, metadata=metadata)


def _moved(timeline: Timeline, graph: RankGraph, times_ns: I64, weighed: Sequence[WeighedTime]) -> Timeline:
    """Device work is where its points are; on a thread, what lies between two points is moved in proportion to what the
    scenario leaves of it."""
    spans = timeline.spans
    by_lane = _moves(timeline, graph, times_ns, weighed)
    home = main_lane(timeline, np.unique(spans.lane[graph.call_row]), timeline.device_work.launch)
    usual = by_lane.get(home) or _move(graph.time_ns, times_ns, ThreadWeights(home, weighed))
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
        spans=moved,
        memory=replace(timeline.memory, at_ns=at_ns).take(np.argsort(at_ns, kind="stable")),
        steps=_steps(timeline.steps, usual),
        evidence=HostEvidence(),
        **tables,
    )


_OF_TIMES = ("spans", "memory", "steps")


def _moves(timeline: Timeline, graph: RankGraph, times_ns: I64, weighed: Sequence[WeighedTime]) -> dict[int, _Moved]:
    """For each thread and stream with points, from when to when each time is moved."""
    ended = np.flatnonzero(graph.call_end != NONE)
    rows = np.concatenate([graph.work_row, graph.work_row, graph.call_row, graph.call_row[ended]])
    points = np.concatenate([graph.work_start, graph.work_end, graph.call_start, graph.call_end[ended]])
    lane = np.concatenate([timeline.spans.lane[rows], graph.mark_lane])
    points = np.concatenate([points, graph.mark_point])
    return {
        number: _move(graph.time_ns[points[here]], times_ns[points[here]], ThreadWeights(number, weighed))
        for number, here in grouped(lane)
    }


def _move(before_ns: I64, after_ns: I64, weights: ThreadWeights) -> _Moved:
    """In proportion to weighed time between points; beyond them as far as the first or the last was moved."""
    order = np.lexsort((after_ns, before_ns))
    before, after = before_ns[order], np.maximum.accumulate(after_ns[order])
    kept = np.append(before[1:] != before[:-1], True)[: len(before)]
    before, after = before[kept], after[kept]
    weighed = weights(before)

    def moved(time_ns: I64) -> I64:
        low = np.clip(np.searchsorted(before, time_ns, side="right") - 1, 0, len(before) - 1)
        high = np.minimum(low + 1, len(before) - 1)
        share = np.where(weighed[high] > weighed[low], _share(weights(time_ns), weighed[low], weighed[high]), 0.0)
        unweighed = (weighed[high] <= weighed[low]) & (high > low)  # all of it is gone, or was said to be
        share[unweighed] = _share(time_ns, before[low], before[high])[unweighed]
        inside: I64 = after[low] + np.rint(share * (after[high] - after[low])).astype(np.int64)
        outside = np.where(time_ns < before[0], time_ns - before[0] + after[0], time_ns - before[-1] + after[-1])
        return np.where((time_ns < before[0]) | (time_ns > before[-1]), outside, inside)

    return moved


def _share(at: I64 | Floats, low: I64 | Floats, high: I64 | Floats) -> Floats:
    share: Floats = np.clip((at - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
    return share


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
