"""Where steps begin and end in a graph: with the host's mark or the work that the step launched, the later of both."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.step_borders import last_work_of_steps, step_borders
from redline.replay.edges import EdgeKind, EdgeList
from redline.timeline.table import I64, Column
from redline.timeline.timeline import Timeline

_Tail = tuple[int, int]  # point, its time


@dataclass(frozen=True, kw_only=True)
class TimedPoints:
    """Points in order of time."""

    number: I64
    time_ns: I64

    @classmethod
    def of(cls, number: I64, time_ns: I64) -> "TimedPoints":
        order = np.argsort(time_ns, kind="stable")
        return cls(number=number[order], time_ns=time_ns[order])

    def last_until(self, at_ns: int) -> Iterator[_Tail]:
        at = int(np.searchsorted(self.time_ns, at_ns, side="right")) - 1
        if at >= 0:
            yield int(self.number[at]), int(self.time_ns[at])


@dataclass(frozen=True, kw_only=True)
class StepBorders:
    """When steps begin and end, and what decides it."""

    start_ns: I64
    end_ns: I64
    marks_ns: I64  # of the host, inside the window, each once
    marked_end_ns: I64  # of each step: when the host marked its end
    last_row: I64  # of each step: the work that it launched on the busiest stream and that ended last; NONE for none


def borders_of(timeline: Timeline, window_ns: tuple[int, int], *, is_marked: bool) -> StepBorders:
    start_ns, end_ns = step_borders(timeline, window_ns)
    steps = timeline.steps
    marks_ns = np.unique(np.clip(np.concatenate([steps.start_ns, steps.end_ns]), *window_ns))
    return StepBorders(
        start_ns=start_ns,
        end_ns=end_ns,
        marks_ns=marks_ns if is_marked else marks_ns[:0],
        marked_end_ns=np.clip(steps.end_ns, *window_ns),
        last_row=last_work_of_steps(timeline),
    )


class BorderPoints:
    """Adds the points of borders, which are numbered from `first` on, and their edges."""

    def __init__(self, borders: StepBorders, first: int, edges: EdgeList, origin: _Tail) -> None:
        self._borders, self._first, self._edges, self._origin = borders, first, edges, origin
        self.times_ns: list[int] = []

    def add(self, marks: TimedPoints, host: TimedPoints, device: TimedPoints, ended: dict[int, _Tail]) -> Column:
        """[step, 2]: the points where each step begins and ends. `ended` has the end of each row of device work."""
        borders = self._borders
        mark_at = dict(zip(marks.time_ns.tolist(), marks.number.tolist(), strict=True))
        points = np.empty((len(borders.start_ns), 2), np.int64)
        before: _Tail | None = None
        rows = zip(
            *(c.tolist() for c in (borders.start_ns, borders.end_ns, borders.marked_end_ns, borders.last_row)),
            strict=True,
        )
        for step, (start_ns, end_ns, marked_ns, last_row) in enumerate(rows):
            fallback = [*host.last_until(start_ns), *device.last_until(start_ns), self._origin]
            if before is not None and before[1] == start_ns:
                points[step, 0] = before[0]
            else:
                sure = [(mark_at[start_ns], start_ns)] if start_ns in mark_at else []
                points[step, 0] = self._border(start_ns, [*sure, *([before] if before else [])], fallback)
            sure = [(int(points[step, 0]), start_ns)]
            if marked_ns in mark_at:
                sure.append((mark_at[marked_ns], marked_ns))
            if last_row in ended:
                sure.append(ended[last_row])
            fallback = [*host.last_until(end_ns), *device.last_until(end_ns), self._origin]
            points[step, 1] = self._border(end_ns, sure, fallback)
            before = int(points[step, 1]), end_ns
        return points

    def _border(self, at_ns: int, sure: list[_Tail], fallback: list[_Tail]) -> int:
        """After all of `sure`; if none of them is there at the time, after what of `fallback` was there last."""
        point = self._first + len(self.times_ns)
        self.times_ns.append(at_ns)
        head = np.array([point])
        for tail, tail_ns in sure:
            self._edges.add(EdgeKind.BORDER, tail, head, min(0, at_ns - tail_ns))
        if max((tail_ns for _, tail_ns in sure), default=at_ns - 1) < at_ns:
            for tail, _ in fallback:
                self._edges.add(EdgeKind.BORDER, tail, head, 0)
            tail, tail_ns = max((*sure, *fallback), key=lambda known: known[1])
            self._edges.add(EdgeKind.BORDER, tail, head, at_ns - tail_ns)
        return point
