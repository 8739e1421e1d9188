"""The longest way through each step: what it was made of, and how much later everything beside it could have ended."""

from dataclasses import replace

import numpy as np

from redline.replay.edges import EdgeKind, EdgeList, Edges, joined_edges
from redline.replay.forecast import JobReplay, ScenarioReplay
from redline.replay.replay import plan_of, replayed
from redline.timeline.table import I32, I64, Column, Table, column
from redline.timeline.timeline import NONE

_UNREACHED_NS = -(1 << 48)


class CriticalPath(Table):
    """Pieces in order of step and time; those of a step are as long as the step, from border to border."""

    step: I32 = column(np.int32)
    rank: I32 = column(np.int32)  # index of the rank; NONE where ranks meet
    start_ns: I64 = column(np.int64)  # on the clock of the job
    dur_ns: I64 = column(np.int64)
    kind: Column = column(np.uint8)  # an EdgeKind
    row: I32 = column(np.int32)  # of the rank's spans, as of the edge
    lane: Column = column(np.int32)
    edge: I32 = column(np.int32)  # of the job

    def of_kind(self) -> dict[EdgeKind, int]:
        """Nanoseconds by kind, the largest first."""
        sums = np.bincount(self.kind, weights=self.dur_ns, minlength=len(EdgeKind) + 1)
        ordered = sorted(EdgeKind, key=lambda kind: -sums[kind])
        return {kind: int(sums[kind]) for kind in ordered if sums[kind]}


def critical_path_of(replay: JobReplay, scenario: ScenarioReplay | None = None) -> CriticalPath:
    """Of the job as it was measured, or in one of its scenarios."""
    job = replay.job
    times_ns = job.time_ns if scenario is None else scenario.times_ns
    delays_ns = job.edges.delay_ns if scenario is None else scenario.delays_ns
    deciding = _deciding_edges(job.edges, times_ns, delays_ns, len(job))
    rank_of_point = np.append(job.rank_of_point(), NONE)
    rank_of_point[rank_of_point >= len(job.graphs)] = NONE
    starts, ends, last = replay.borders(times_ns)
    steps = []
    for number in range(len(starts)):
        way = _way_back(int(last[number]), int(starts[number]), deciding, job.edges, times_ns)
        edges = np.array(way, np.int64)
        begin_ns = np.maximum(times_ns[job.edges.tail[edges]], starts[number])
        end_ns = np.minimum(times_ns[job.edges.head[edges]], ends[number])
        known = end_ns > begin_ns
        edges = edges[known]
        steps.append(
            CriticalPath(
                step=np.full(len(edges), number, np.int32),
                rank=_rank_of(job.edges.take(edges), rank_of_point).astype(np.int32),
                start_ns=begin_ns[known],
                dur_ns=(end_ns - begin_ns)[known],
                kind=job.edges.kind[edges],
                row=job.edges.row[edges],
                lane=job.edges.lane[edges],
                edge=edges.astype(np.int32),
            )
        )
    return _joined(steps)


def _rank_of(edges: Edges, rank_of_point: I64) -> I64:
    """Of the head, or of the tail where ranks meet in the head."""
    head = rank_of_point[edges.head]
    return np.where(head != NONE, head, rank_of_point[edges.tail])


def _deciding_edges(edges: Edges, times_ns: I64, delays_ns: I64, points: int) -> I64:
    """For each point the edge that had it come when it did, or NONE."""
    deciding = np.full(points, NONE)
    decides = np.flatnonzero(times_ns[edges.tail] + delays_ns == times_ns[edges.head])
    deciding[edges.head[decides[::-1]]] = decides[::-1]
    return deciding


def _way_back(point: int, begin_ns: int, deciding: I64, edges: Edges, times_ns: I64) -> list[int]:
    """Edges from the beginning to a point, in that order."""
    way = []
    # Single numbers come several times faster from views than from arrays.
    times, decided_by, tails = times_ns.data, deciding.data, edges.tail.data
    while times[point] > begin_ns and (edge := decided_by[point]) != NONE:
        way.append(edge)
        point = tails[edge]
    way.reverse()
    return way


def _joined(parts: list[CriticalPath]) -> CriticalPath:
    if not parts:
        return CriticalPath.empty()
    names = CriticalPath.layout()
    return CriticalPath(**{name: np.concatenate([part.columns()[name] for part in parts]) for name in names})


def slack_ns(replay: JobReplay) -> I64:
    """Of each point how much later it could come without the end of the last step moving; of what leads to no step's
    end, as long as there is."""
    job = replay.job
    points = len(job)
    ends = np.concatenate([of_rank[-1:, 1] for of_rank in job.step_points() if len(of_rank)])
    end_ns = int(job.time_ns[ends].max())
    # Backwards: a point is as far from the end as the farthest of what waits for it.
    turned = replace(job.edges, tail=job.edges.head, head=job.edges.tail)
    begins = EdgeList()
    begins.add(EdgeKind.PIN, points, ends, -_UNREACHED_NS)
    together = joined_edges([turned, begins.as_found()])
    together = together.take(np.argsort(together.head, kind="stable"))
    plan = plan_of(together, points + 1)
    far_ns = replayed(together, plan, together.delay_ns[:, None], _UNREACHED_NS)[:points, 0]
    latest_ns = np.where(far_ns > _UNREACHED_NS // 2, end_ns - far_ns, end_ns)
    slack: I64 = np.maximum(latest_ns - job.time_ns, 0)
    return slack
