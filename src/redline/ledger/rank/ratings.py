"""Which operator's known work each compute kernel does: the nearest operator around its launch that can be rated."""

import numpy as np

from redline.ledger.rank.activity import DeviceActivity
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.name_matching import matching
from redline.roofline.roofline import work_of
from redline.roofline.sizes import Work
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

_MOST_LEVELS = 8  # from the operator around a launch outwards; further out, an operator does more than this kernel


@dataclass(frozen=True, kw_only=True)
class Ratings:
    """For each piece of compute the operator whose work it does; NONE where that is not known."""

    operator: I64
    work: I64  # index into works
    works: tuple[Work, ...]


def rate(timeline: Timeline, activity: DeviceActivity) -> Ratings:
    launched_by = operators_of(timeline, activity)
    rows, piece = np.unique(launched_by, return_inverse=True)
    book = _WorkBook(timeline)
    owner, work = _climbed(timeline, rows, _longest_kernels(timeline, activity, piece, len(rows)), book)
    return Ratings(operator=owner[piece], work=work[piece], works=tuple(book.works))


def operators_of(timeline: Timeline, activity: DeviceActivity) -> I64:
    """The innermost operator of each piece of compute; NONE for what a graph launched, as it was recorded elsewhere."""
    rows = activity.compute.row
    if activity.device == "cpu":
        return rows
    work = timeline.device_work
    place = np.searchsorted(work.row, rows)
    operator, launch = work.operator[place].astype(np.int64), work.launch[place]
    calls = np.unique(launch[launch != NONE])
    graphs = calls[matching(timeline, calls, schema.is_graph_launch)]
    return np.where(np.isin(launch, graphs), NONE, operator)


class _WorkBook:
    """The work of operators, each distinct call looked at once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.works: list[Work] = []
        self._known: dict[tuple[int, ...], int] = {}

    def work_of(self, rows: I64, kernel_name: I64 | None = None) -> I64:
        """Index into the works for each row of an operator; NONE where it is not known.

        Of lists of tensors the profiler records no types; the names of their kernels tell them.
        """
        if not len(rows):
            return np.empty(0, np.int64)
        operators = self._timeline.operators
        place = np.minimum(np.searchsorted(operators.row, rows), max(len(operators) - 1, 0))
        described = operators.row[place] == rows if len(operators) else np.zeros(len(rows), bool)
        columns: list[Column] = [self._timeline.spans.name[rows]]
        columns += [getattr(operators, name)[place] for name in ("shapes", "dtypes", "strides", "values")]
        columns += [kernel_name if kernel_name is not None else np.full(len(rows), NONE)]
        keys, which = distinct(*columns)
        numbers = np.array([self._looked_up(tuple(key)) for key in keys.T.tolist()], np.int64)
        return np.where(described, numbers[which], NONE)

    def _looked_up(self, key: tuple[int, ...]) -> int:
        if key not in self._known:
            *described, kernel_name = map(self._timeline.text, key)
            work = work_of(*described, kernel_name=kernel_name)
            self._known[key] = NONE if work is None else len(self.works)
            if work is not None:
                self.works.append(work)
        return self._known[key]


def _longest_kernels(timeline: Timeline, activity: DeviceActivity, operator: I64, operators: int) -> I64:
    """Name of the longest piece of compute of each operator, given the operator's number for each piece."""
    spans, rows = timeline.spans, activity.compute.row
    longest = np.full(operators, NONE, np.int64)
    order = np.argsort(spans.dur_ns[rows], kind="stable")
    longest[operator[order]] = spans.name[rows[order]]  # the last to be written is the longest
    return longest


def _climbed(timeline: Timeline, rows: I64, kernel_name: I64, book: _WorkBook) -> tuple[I64, I64]:
    """For each operator (rows are distinct) the nearest one outwards that can be rated, and its work.

    An operator whose arithmetic was done by one inside it does not lend its work to other kernels as well.
    """
    at = rows.copy()
    work = np.full(len(rows), NONE, np.int64)
    known = at != NONE
    work[known] = book.work_of(at[known])
    open_ = np.flatnonzero(known & (work == NONE))
    work[open_] = book.work_of(at[open_], kernel_name[open_])
    spent = _around(timeline, at[(work != NONE) & _has_arithmetic(work, book)])
    open_ = np.flatnonzero(known & (work == NONE))
    for _ in range(_MOST_LEVELS):
        at[open_] = _outer(timeline, at[open_])
        open_ = open_[at[open_] != NONE]
        open_ = open_[~np.isin(at[open_], spent)]
        if not len(open_):
            break
        work[open_] = book.work_of(at[open_])
        open_ = open_[work[open_] == NONE]
    # The inner one may itself have been found further in only now.
    arithmetic = (work != NONE) & _has_arithmetic(work, book)
    work[arithmetic & np.isin(at, _around(timeline, at[arithmetic]))] = NONE
    return np.where(work != NONE, at, NONE), work


def _has_arithmetic(work: I64, book: _WorkBook) -> np.typing.NDArray[np.bool_]:
    flops = np.array([known.flops > 0 for known in book.works] + [False])
    has: np.typing.NDArray[np.bool_] = flops[work]
    return has


def _outer(timeline: Timeline, rows: I64) -> I64:
    """The next operator outwards of each row, NONE for the outermost."""
    spans = timeline.spans
    return nearest_of(spans.kind == Kind.OPERATOR, spans.parent, spans.parent[rows])


def _around(timeline: Timeline, rows: I64) -> I64:
    """All operators around the rows."""
    spans = timeline.spans
    around = np.zeros(len(spans), bool)
    at: Column = rows
    while len(at):
        at = np.unique(spans.parent[at])
        at = at[(at != NONE) & ~around[at]]  # what is around those is known already
        around[at] = True
    return np.flatnonzero(around & (spans.kind == Kind.OPERATOR))


def recomputed(timeline: Timeline, rows: I64) -> np.typing.NDArray[np.bool_]:
    """Which operators run forward work again inside the backward pass.

    Autograd numbers an operator of the forward pass, and names the forward thread in operators of the backward pass.
    So a numbered operator without that name, inside one that has it, is forward work within backward.
    """
    operators, spans = timeline.operators, timeline.spans
    backward, forward = np.zeros((2, len(spans)), bool)
    backward[operators.row] = operators.forward_thread > 0
    forward[operators.row] = (operators.sequence >= 0) & (operators.forward_thread <= 0)
    # Of two spans around a row the one that began later is further in.
    around = nearest_of(backward, spans.parent, rows)
    again: np.typing.NDArray[np.bool_] = (around != NONE) & (nearest_of(forward, spans.parent, rows) > around)
    return again
