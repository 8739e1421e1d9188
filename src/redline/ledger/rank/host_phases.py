"""Which phase of a training step the host was in at any time: input, forward, backward, optimizer or between.

Marks in the trace say it: calls of the data loader, nodes of the backward pass, `Optimizer.step` and `zero_grad`. What
lies between two marks belongs to the phase that leads from the one to the other:

    loader -> backward      forward
    backward -> optimizer   optimizer: gradients are clipped, unscaled or reduced by hand
    optimizer -> loader     between: logging, evaluation, checkpoints
    optimizer -> backward   between until the forward pass begins (`work_between`), then forward

Without a backward pass and an optimizer the job only computes forward: operators are forward, the rest is between.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum, StrEnum

import numpy as np

from redline.ledger.rank.activity import Mask, working_lanes
from redline.ledger.rank.backward_passes import Passes
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import innermost_segments
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

_UPDATED = 0.5  # of the parameters that got a gradient: an optimizer written by hand writes most of them in place
SILENCE_NS = 5_000_000  # a host that runs no operator for longer does something else than compute forward


class Phase(StrEnum):
    """Parts of a training step, in order."""

    INPUT = "input"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    BETWEEN = "between"


PHASES = tuple(Phase)


class _Kind(IntEnum):
    START = 0  # before the first mark
    LOADER = 1
    BACKWARD = 2
    OPTIMIZER = 3
    ZERO_GRAD = 4
    END = 5  # after the last


_PHASE_OF = {
    _Kind.LOADER: Phase.INPUT,
    _Kind.BACKWARD: Phase.BACKWARD,
    _Kind.OPTIMIZER: Phase.OPTIMIZER,
    _Kind.ZERO_GRAD: Phase.OPTIMIZER,
}


@dataclass(frozen=True, kw_only=True)
class HostPhases:
    """The window cut into stretches of one phase each, in order and without gaps."""

    start_ns: I64
    phase: I64  # place in PHASES
    end_ns: int  # of the window
    known: bool  # False where nothing of the host was recorded: then all of it is called between

    def at(self, host_ns: I64) -> I64:
        """The place in PHASES at each time; times outside the window have the phase of its edge."""
        place: I64 = self.phase[np.maximum(np.searchsorted(self.start_ns, host_ns, side="right") - 1, 0)]
        return place

    def when(self, phase: Phase) -> Intervals:
        chosen = self.phase == PHASES.index(phase)
        ends_ns = np.append(self.start_ns[1:], self.end_ns)
        return Intervals.union_of(self.start_ns[chosen], ends_ns[chosen])


@dataclass(frozen=True, slots=True)
class _Mark:
    start_ns: int
    end_ns: int
    kind: _Kind


def host_phases_of(timeline: Timeline, passes: Passes, window_ns: tuple[int, int]) -> HostPhases:
    marks = _disjoint(_marks(timeline, passes, window_ns), window_ns)
    trains = any(mark.kind in (_Kind.BACKWARD, _Kind.OPTIMIZER) for mark in marks)
    pieces = _pieces(marks, _Unmarked(timeline, passes.backward.start, trains=trains), window_ns)
    start_ns, phase = [window_ns[0]], [PHASES.index(Phase.BETWEEN)]
    for from_ns, of in pieces:
        if from_ns == start_ns[-1]:  # the one before has no length
            phase[-1] = PHASES.index(of)
        else:
            start_ns.append(from_ns)
            phase.append(PHASES.index(of))
    return HostPhases(
        start_ns=np.array(start_ns, np.int64),
        phase=np.array(phase, np.int64),
        end_ns=window_ns[1],
        known=bool(len(timeline.spans.rows_of(Kind.OPERATOR, *CALL_KINDS))),
    )


def _pieces(marks: Sequence[_Mark], unmarked: "_Unmarked", window_ns: tuple[int, int]) -> Iterator[tuple[int, Phase]]:
    """From when each phase lasts, in order. A zero_grad lies inside another phase, and goes on with it afterwards."""
    edges = [_Mark(window_ns[0], window_ns[0], _Kind.START), *marks, _Mark(window_ns[1], window_ns[1], _Kind.END)]
    after = _next_of(edges)
    before = edges[0]
    for number, mark in enumerate(edges[:-1]):
        if mark.kind in _PHASE_OF:
            yield mark.start_ns, _PHASE_OF[mark.kind]
        if mark.kind is not _Kind.ZERO_GRAD:
            before = mark
        if mark.end_ns < edges[number + 1].start_ns:
            for from_ns, phase in unmarked.course(before, edges[after[number]]):
                if from_ns < edges[number + 1].start_ns:
                    yield max(from_ns, mark.end_ns), phase


def _next_of(edges: Sequence[_Mark]) -> list[int]:
    """For each edge the place of the next one that is no zero_grad."""
    after = [len(edges) - 1] * len(edges)
    for number in range(len(edges) - 2, -1, -1):
        following = edges[number + 1].kind
        after[number] = after[number + 1] if following is _Kind.ZERO_GRAD else number + 1
    return after


# --- marks ------------------------------------------------------------------------------------------------------------


def _marks(timeline: Timeline, passes: Passes, window_ns: tuple[int, int]) -> list[_Mark]:
    spans = timeline.spans
    regions = spans.rows_of(Kind.ANNOTATION)
    optimizers = regions[matching(timeline, regions, schema.is_optimizer_step)]
    zeros = regions[matching(timeline, regions, schema.is_zero_grad)]
    loaders = regions[matching(timeline, regions, schema.is_data_loader)]
    if len(optimizers):  # a loader on another thread than the one that trains loads ahead
        main = np.bincount(spans.lane[optimizers]).argmax()
        loaders = loaders[spans.lane[loaders] == main]
    backward_ns = _whole_passes(timeline, passes)
    marks = [
        *_marks_of(Intervals.union_of(spans.start_ns[loaders], spans.end_ns[loaders]), _Kind.LOADER),
        *_marks_of(backward_ns, _Kind.BACKWARD),
        *_marks_of(passes.optimizer, _Kind.OPTIMIZER),
        *_marks_of(Intervals.union_of(spans.start_ns[zeros], spans.end_ns[zeros]), _Kind.ZERO_GRAD),
    ]
    if len(backward_ns) and not len(optimizers):
        starts_ns = np.sort(np.concatenate([spans.start_ns[loaders], _forward_starts_ns(timeline)]))
        marks += _hand_written_optimizers(timeline, backward_ns, np.append(starts_ns, window_ns[1]))
    return marks


def _marks_of(time: Intervals, kind: _Kind) -> Iterator[_Mark]:
    return (_Mark(*edges, kind) for edges in zip(time.start.tolist(), time.end.tolist(), strict=True))


def _disjoint(marks: Sequence[_Mark], window_ns: tuple[int, int]) -> list[_Mark]:
    """In order of time. Of two that overlap, the inner one: an optimizer may call a closure, a hook an optimizer."""
    if not marks:
        return []
    starts = np.clip(np.array([mark.start_ns for mark in marks], np.int64), *window_ns)
    ends = np.clip(np.array([mark.end_ns for mark in marks], np.int64), *window_ns)
    pieces = zip(*(column.tolist() for column in innermost_segments(starts, ends)), strict=True)
    return [_Mark(start_ns, end_ns, marks[inner].kind) for start_ns, end_ns, inner in pieces]


def _whole_passes(timeline: Timeline, passes: Passes) -> Intervals:
    """Backward passes with what ends them after their last node: collectives that were begun, copies from buckets."""
    spans = timeline.spans
    on_device = np.array([lane.on_device for lane in timeline.lanes], bool)
    exchanges = spans.rows_of(Kind.COMMUNICATION)
    exchanges = exchanges[~on_device[spans.lane[exchanges]]]
    regions = spans.rows_of(Kind.ANNOTATION, Kind.OPERATOR)
    copies = regions[matching(timeline, regions, schema.copies_from_bucket)]
    start_ns, end_ns = passes.backward.start, passes.backward.end.copy()
    for rows, until_ns in ((exchanges, passes.backward.end), (copies, passes.over_ns)):
        number = np.searchsorted(start_ns, spans.start_ns[rows], side="right") - 1
        of_pass = (number >= 0) & (spans.start_ns[rows] < np.append(until_ns, 0)[number])
        np.maximum.at(end_ns, number[of_pass], spans.end_ns[rows[of_pass]])
    return Intervals.union_of(start_ns, np.minimum(end_ns, np.maximum(passes.over_ns, passes.backward.end)))


def _hand_written_optimizers(timeline: Timeline, backward: Intervals, next_ns: I64) -> Iterator[_Mark]:
    """Where a loop of the user's own writes the parameters after a backward pass: until the last of these writes."""
    spans = timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    nodes_ns = spans.start_ns[operators[matching(timeline, operators, schema.accumulates_gradient)]]
    writes = operators[matching(timeline, operators, schema.writes_in_place)]
    writes = writes[~_inside_operator(timeline, writes)]
    lists = matching(timeline, writes, schema.is_foreach)
    for begin_ns, from_ns in zip(backward.start.tolist(), backward.end.tolist(), strict=True):
        to_ns = int(next_ns[min(np.searchsorted(next_ns, from_ns), len(next_ns) - 1)])
        here = slice(*np.searchsorted(spans.start_ns[writes], (from_ns, max(to_ns, from_ns))).tolist())
        parameters = int(((nodes_ns >= begin_ns) & (nodes_ns < from_ns)).sum())
        rows = writes[here]
        if len(rows) and (lists[here].any() or 0 < _UPDATED * parameters <= len(rows)):
            yield _Mark(from_ns, int(spans.end_ns[rows].max()), _Kind.OPTIMIZER)


def _inside_operator(timeline: Timeline, rows: I64) -> Mask:
    parent = timeline.spans.parent[rows]
    inside: Mask = (parent != NONE) & (timeline.spans.kind[parent] == Kind.OPERATOR)
    return inside


# --- where no mark is -------------------------------------------------------------------------------------------------


class _Unmarked:
    """Phases of the time between two marks."""

    def __init__(self, timeline: Timeline, passes_ns: I64, *, trains: bool) -> None:
        self._trains = trains
        self._forward_ns = _forward_starts_ns(timeline) if trains else np.empty(0, np.int64)
        self._numbered_ns = _starts_ns(timeline, _numbered(timeline)) if trains else np.empty(0, np.int64)
        self._active = Intervals.empty() if trains else _active(timeline)
        self._between = WorkBetween(timeline, _forward_lane(timeline), passes_ns)

    def course(self, before: _Mark, after: _Mark) -> Iterator[tuple[int, Phase]]:
        """From when each phase lasts, in order, from the one mark to the other."""
        start_ns, end_ns = before.end_ns, after.start_ns
        if not self._trains:
            yield from self._inference(start_ns, end_ns)
            return
        forward_ns = _first_of(self._forward_ns, start_ns, end_ns)
        if forward_ns == end_ns and after.kind is _Kind.BACKWARD:  # something led there, though nothing links to it
            forward_ns = _first_of(self._numbered_ns, start_ns, end_ns)
        if after.kind is _Kind.BACKWARD or (before.kind is _Kind.LOADER and after.kind is not _Kind.LOADER):
            if before.kind is not _Kind.LOADER:
                yield start_ns, Phase.BETWEEN
                start_ns = self._between.until(start_ns, forward_ns)
            yield start_ns, Phase.FORWARD
        elif after.kind is _Kind.OPTIMIZER and (before.kind is _Kind.BACKWARD or forward_ns == end_ns):
            yield start_ns, Phase.OPTIMIZER
        else:
            yield start_ns, Phase.BETWEEN
            if after.kind is _Kind.OPTIMIZER:
                yield forward_ns, Phase.FORWARD

    def _inference(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, Phase]]:
        active = self._active.clip(start_ns, end_ns)
        yield start_ns, Phase.BETWEEN
        for from_ns, to_ns in zip(active.start.tolist(), active.end.tolist(), strict=True):
            yield from_ns, Phase.FORWARD
            yield to_ns, Phase.BETWEEN


def _first_of(times_ns: I64, start_ns: int, end_ns: int) -> int:
    """The first that lies between the two; the end where none does."""
    at = int(np.searchsorted(times_ns, start_ns))
    return min(int(times_ns[at]), end_ns) if at < len(times_ns) else end_ns


def _forward_starts_ns(timeline: Timeline) -> I64:
    """When operators of forward passes began: those whose backward ran too; without one, those autograd numbered."""
    forward = timeline.operators.forward
    rows = np.unique(forward[forward != NONE]).astype(np.int64)
    return _starts_ns(timeline, rows if len(rows) else _numbered(timeline))


def _forward_lane(timeline: Timeline) -> int:
    """The thread of most operators that autograd numbered; NONE without one."""
    rows = _numbered(timeline)
    return int(np.bincount(timeline.spans.lane[rows]).argmax()) if len(rows) else NONE


def _numbered(timeline: Timeline) -> I64:
    operators = timeline.operators
    return operators.row[(operators.sequence >= 0) & (operators.forward_thread <= 0)].astype(np.int64)


def _starts_ns(timeline: Timeline, rows: I64) -> I64:
    """When operators began, each with the modules and operators around it, and with what DDP does before its model."""
    spans = timeline.spans
    if not len(rows):
        return np.empty(0, np.int64)
    around = spans.rows_of(Kind.OPERATOR, Kind.PYTHON, Kind.ANNOTATION)
    calls = (spans.kind[around] == Kind.OPERATOR) | matching(timeline, around, schema.begins_forward)
    around = around[calls & (spans.lane[around] == np.bincount(spans.lane[rows]).argmax())]
    reached_ns = np.maximum.accumulate(spans.end_ns[around])
    first = np.append(True, spans.start_ns[around][1:] >= reached_ns[:-1])  # of each outermost span
    starts_ns = spans.start_ns[around[first]]
    at = np.searchsorted(starts_ns, spans.start_ns[rows], side="right") - 1
    return np.unique(np.where(at >= 0, starts_ns[at], spans.start_ns[rows]))


def _active(timeline: Timeline) -> Intervals:
    """When operators or calls of the device's runtime ran, with short pauses between them."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.OPERATOR, *CALL_KINDS)
    rows = rows[np.isin(spans.lane[rows], working_lanes(timeline))]
    ran = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    joined = Intervals.union_of(ran.start, ran.end + SILENCE_NS)
    return Intervals(joined.start, joined.end - SILENCE_NS)


class WorkBetween:
    """Where work between steps ends and the next forward pass begins, if no data loader marks that.

    A forward pass may begin with layers that compute no gradients, so the first operator whose gradient is computed is
    not always its first. A forward pass begins with a layer; what computes layers and is none, an evaluation, ends with
    a number that Python reads, or with a pause; or it is layers without gradients that most steps do not have.
    """

    def __init__(self, timeline: Timeline, lane: int, passes_ns: I64) -> None:
        """`passes_ns`: when backward passes began, one of each step."""
        spans, operators = timeline.spans, timeline.operators
        rows = spans.rows_of(Kind.OPERATOR)
        rows = rows[spans.lane[rows] == lane]
        parent = spans.parent[rows]
        outer = rows[(parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)]
        reads = rows[matching(timeline, rows, schema.reads_scalar)]
        layers = outer[matching(timeline, outer, schema.is_layer_operator)]
        self._start_ns, self._end_ns = spans.start_ns[outer], spans.end_ns[outer]
        self._read_ns = spans.end_ns[reads]
        self._layer_ns = spans.start_ns[layers]
        numbered = operators.row[operators.sequence >= 0]  # autograd numbers what runs while gradients are on
        self._no_grad_ns = self._layer_ns[~np.isin(layers, numbered)]
        per_pass = np.diff(np.searchsorted(self._no_grad_ns, passes_ns))
        self._usual_no_grad = int(np.median(per_pass)) if len(per_pass) else len(layers)

    def until(self, start_ns: int, forward_ns: int) -> int:
        """When it ends: where the forward pass begins of which an operator at `forward_ns` is known."""
        first, last = np.searchsorted(self._start_ns, (start_ns, forward_ns)).tolist()
        if first == last:
            return forward_ns
        pause_ns = _last_pause(self._start_ns[first:last], self._end_ns[first:last], forward_ns)
        over_ns = max(pause_ns, _previous(self._read_ns, start_ns, forward_ns), self._unusual(start_ns, forward_ns))
        return _next(self._layer_ns, over_ns, forward_ns)

    def _unusual(self, start_ns: int, forward_ns: int) -> int:
        """When the last layer without gradients begins that most steps do not have, plus 1; 0 without one."""
        first, last = np.searchsorted(self._no_grad_ns, (start_ns, forward_ns)).tolist()
        unusual = last - first - self._usual_no_grad
        return int(self._no_grad_ns[first + unusual - 1]) + 1 if unusual > 0 else 0


def _last_pause(start_ns: I64, end_ns: I64, forward_ns: int) -> int:
    """When the last pause ends before the forward pass, 0 without one."""
    gaps = np.append(start_ns[1:], forward_ns) - np.maximum.accumulate(end_ns)
    long = np.flatnonzero(gaps > SILENCE_NS)
    return int(np.append(start_ns, forward_ns)[long[-1] + 1]) if len(long) else 0


def _next(times_ns: I64, start_ns: int, end_ns: int) -> int:
    """The first that lies between the two; the end where none does."""
    at = int(np.searchsorted(times_ns, start_ns))
    return min(int(times_ns[at]), end_ns) if at < len(times_ns) else end_ns


def _previous(times_ns: I64, start_ns: int, end_ns: int) -> int:
    """The last that lies between the two; the start where none does."""
    inside = times_ns[(times_ns > start_ns) & (times_ns <= end_ns)]
    return int(inside.max(initial=start_ns))
