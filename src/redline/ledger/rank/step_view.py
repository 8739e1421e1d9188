"""One step of one rank as a picture: the device by account, its streams, the threads of the host, the longest gaps.

Nothing is finer than a pixel, and nothing is many: what is too short to be seen is shown together with its neighbours.
Times are since the step began.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from redline.ledger.accounts import ACCOUNTS, IDLE, Account, place
from redline.ledger.rank.activity import working_lanes
from redline.ledger.rank.host_activity import HostActivity, host_activities
from redline.ledger.rank.idle import Idle
from redline.ledger.rank.ledger import amounts_within
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, NONE, Kind
from redline.trace import schema
from redline.values import dataclass

PIXELS: Final = (2000, 1000, 500, 250, 125)  # of the step; the first that keeps the bands few
MOST_BANDS = 900
MOST_PIECES = 1000
MOST_GAPS = 8
MOST_STREAMS, MOST_THREADS = 6, 4
_LEAST_GAP = 0.002  # of the step
_ALIKE = 20  # bands whose shares agree to one part in so many are one
_WHOLE = 0.9  # of the step: a region that covers it all tells nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A stretch in which an account took a share of the time: from `low` to `high` of the height."""

    start_ns: int
    end_ns: int
    account: Account
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One span; or several that are too short to be told apart."""

    start_ns: int
    end_ns: int
    level: int  # 0 at the top of its lane
    kind: str  # compute, communication, copy; region, loader, operator, call, blocked
    name: str  # "" for several
    count: int


@dataclass(frozen=True, kw_only=True)
class StripLane:
    """A stream of a device, or a thread of the host."""

    device: int  # NONE for a thread
    stream: int
    thread: str
    label: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A stretch in which the device was idle, and what the host did for most of it."""

    start_ns: int
    end_ns: int
    account: Account  # that most of it is in
    doing: HostActivity | None  # None where it was not the host that was waited for
    next_name: str  # the work that ended it; "" where none did


@dataclass(frozen=True, kw_only=True)
class StepView:
    """One step of one rank."""

    rank: int
    number: int  # of the step
    label: str
    start_ns: int  # since the window of the rank began
    length_ns: int
    pixel_ns: int  # nothing of the device's accounts is finer
    bands: tuple[Band, ...]
    lanes: tuple[StripLane, ...]
    gaps: tuple[Gap, ...]
    idle_ns: int
    more_streams: int
    more_threads: int
    more_pieces: int


def step_view_of(analysis: RankAnalysis, waiting: Intervals, rank: int) -> StepView | None:
    """The step of median length; `waiting` is the communication that was waiting for others. None without steps.

    A step without length has nothing to draw and is not looked at.
    """
    lengths = analysis.ledger.end_ns - analysis.ledger.start_ns
    order = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths <= 0) :]
    if not len(order):
        return None
    number = int(order[len(order) // 2])
    step = int(analysis.ledger.start_ns[number]), int(analysis.ledger.end_ns[number])
    pixel_ns, bands = _bands(analysis, waiting, step)
    streams, more_streams = _lanes(analysis, step, on_device=True)
    threads, more_threads = _lanes(analysis, step, on_device=False)
    lanes, more_pieces = _longest([*streams, *threads])
    return StepView(
        rank=rank,
        number=number,
        label=analysis.timeline.text(int(analysis.timeline.steps.label[number])),
        start_ns=step[0] - analysis.activity.window_ns[0],
        length_ns=step[1] - step[0],
        pixel_ns=pixel_ns,
        bands=bands,
        lanes=lanes,
        gaps=tuple(_gaps(analysis, step)),
        idle_ns=analysis.activity.idle.clip(*step).length_ns,
        more_streams=more_streams,
        more_threads=more_threads,
        more_pieces=more_pieces,
    )


# --- the device, by account -------------------------------------------------------------------------------------------


def _bands(analysis: RankAnalysis, waiting: Intervals, step: tuple[int, int]) -> tuple[int, tuple[Band, ...]]:
    bands: list[Band] = []
    pixel_ns = 1
    for pixels in PIXELS:
        edges = np.unique(np.linspace(*step, pixels + 1).astype(np.int64))
        pixel_ns = -(-(step[1] - step[0]) // pixels)
        bands = list(_bands_between(analysis, waiting, edges))
        if len(bands) <= MOST_BANDS:
            break
    return pixel_ns, tuple(bands)


def _bands_between(analysis: RankAnalysis, waiting: Intervals, edges: I64) -> Iterator[Band]:
    """Neighbours that look alike become one."""
    shares = _shares(analysis, waiting, edges)
    looks = np.round(shares * _ALIKE)
    changes = (np.diff(looks, axis=0) != 0).any(axis=1)
    edges = edges[np.concatenate([[True], changes, [True]])]
    shares = _shares(analysis, waiting, edges)
    tops = np.minimum(np.cumsum(shares, axis=1), 1.0)
    begins = (edges[:-1] - edges[0]).tolist()
    ends = (edges[1:] - edges[0]).tolist()
    for row, column in np.argwhere(shares > 0.5 / _ALIKE).tolist():
        high = float(tops[row, column])
        yield Band(
            start_ns=begins[row],
            end_ns=ends[row],
            account=ACCOUNTS[column],
            low=max(high - float(shares[row, column]), 0.0),
            high=high,
        )


def _shares(analysis: RankAnalysis, waiting: Intervals, edges: I64) -> npt.NDArray[np.float64]:
    """Of the time between each two edges, by account."""
    periods = edges[:-1], edges[1:]
    amounts = amounts_within(analysis.timeline, analysis.activity, analysis.idle, analysis.kernels, periods)
    waited = np.minimum(waiting.overlap_with(*periods), amounts[:, place(Account.TRANSFER)])
    amounts[:, place(Account.TRANSFER)] -= waited
    amounts[:, place(Account.PEER_WAIT)] += waited
    return amounts / np.diff(edges)[:, np.newaxis]


# --- streams and threads ----------------------------------------------------------------------------------------------


def _lanes(analysis: RankAnalysis, step: tuple[int, int], *, on_device: bool) -> tuple[list[StripLane], int]:
    """Those that did most in the step, in the order of the trace, and how many more there are."""
    timeline = analysis.timeline
    pieces_of: dict[int, list[Piece]] = {}
    for lane in working_lanes(timeline).tolist():
        if timeline.lanes[lane].on_device == on_device:
            pieces = list(_pieces(analysis, lane, step))
            if pieces:
                pieces_of[lane] = pieces
    busiest = sorted(pieces_of, key=lambda lane: -sum(piece.end_ns - piece.start_ns for piece in pieces_of[lane]))
    chosen = sorted(busiest[: MOST_STREAMS if on_device else MOST_THREADS])
    lanes = [_lane(analysis, lane, pieces_of[lane]) for lane in chosen]
    return lanes, len(pieces_of) - len(lanes)


def _lane(analysis: RankAnalysis, lane: int, pieces: Sequence[Piece]) -> StripLane:
    known = analysis.timeline.lanes[lane]
    return StripLane(
        device=known.device, stream=known.stream, thread=known.thread, label=known.label, pieces=tuple(pieces)
    )


def _pieces(analysis: RankAnalysis, lane: int, step: tuple[int, int]) -> Iterator[Piece]:
    spans = analysis.timeline.spans
    rows = np.flatnonzero((spans.lane == lane) & (spans.start_ns < step[1]) & (spans.end_ns > step[0]))
    for level, kind, chosen in _by_kind(analysis, rows, step):
        yield from _seen(analysis, chosen, step, level, kind)


def _by_kind(analysis: RankAnalysis, rows: I64, step: tuple[int, int]) -> Iterator[tuple[int, str, I64]]:
    """Level, kind and rows of everything that is drawn of a lane; of nested operators and regions the outermost."""
    spans, timeline = analysis.timeline.spans, analysis.timeline
    kind = spans.kind[rows]
    yield 0, "compute", rows[kind == Kind.KERNEL]
    yield 0, "communication", rows[kind == Kind.COMMUNICATION]
    yield 0, "copy", rows[(kind == Kind.COPY) | (kind == Kind.SET)]
    regions = rows[kind == Kind.ANNOTATION]
    loading = matching(timeline, regions, schema.is_data_loader)
    narrow = spans.dur_ns[regions] < _WHOLE * (step[1] - step[0])
    yield 0, "loader", regions[loading]
    yield 0, "region", _outermost(analysis, regions[~loading & narrow])
    yield 1, "operator", _outermost(analysis, rows[kind == Kind.OPERATOR])
    calls = rows[np.isin(kind, np.array(CALL_KINDS, np.uint8))]
    blocked = matching(timeline, calls, schema.is_blocking_call)
    yield 2, "blocked", calls[blocked]
    yield 2, "call", calls[~blocked]


def _outermost(analysis: RankAnalysis, rows: I64) -> I64:
    """Without those that lie inside an earlier one."""
    end_ns = analysis.timeline.spans.end_ns[rows]
    reached = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end_ns))[:-1]
    return rows[end_ns > reached]


def _seen(analysis: RankAnalysis, rows: I64, step: tuple[int, int], level: int, kind: str) -> Iterator[Piece]:
    """Spans that are at least a pixel long each for itself; shorter ones with those less than a pixel away."""
    spans = analysis.timeline.spans
    pixel_ns = max((step[1] - step[0]) // PIXELS[0], 1)
    starts, ends = np.maximum(spans.start_ns[rows], step[0]), np.minimum(spans.end_ns[rows], step[1])
    long = ends - starts >= pixel_ns
    for row, start, end in zip(rows[long].tolist(), starts[long].tolist(), ends[long].tolist(), strict=True):
        name = analysis.name(row)
        yield Piece(start_ns=start - step[0], end_ns=end - step[0], level=level, kind=kind, name=name, count=1)
    short = np.flatnonzero(~long)
    near = Intervals.union_of(starts[short], ends[short] + pixel_ns)
    crowd = np.searchsorted(near.start, starts[short], side="right") - 1
    counts = np.bincount(crowd, minlength=len(near)).tolist()
    first = dict(zip(crowd[::-1].tolist(), rows[short][::-1].tolist(), strict=True))
    for number, (start, end, count) in enumerate(zip(near.start.tolist(), near.end.tolist(), counts, strict=True)):
        yield Piece(
            start_ns=start - step[0],
            end_ns=min(max(end - pixel_ns, start + pixel_ns // 2), step[1]) - step[0],
            level=level,
            kind=kind,
            name=analysis.name(first[number]) if count == 1 else "",
            count=count,
        )


def _longest(lanes: Sequence[StripLane]) -> tuple[tuple[StripLane, ...], int]:
    """Lanes with the longest pieces only, so that all together are few enough; and how many spans that leaves out."""
    every = [
        (piece.end_ns - piece.start_ns, number, piece) for number, lane in enumerate(lanes) for piece in lane.pieces
    ]
    every.sort(key=lambda measured: -measured[0])
    kept: list[list[Piece]] = [[] for _ in lanes]
    for _, number, piece in every[:MOST_PIECES]:
        kept[number].append(piece)
    shown = tuple(
        replace(lane, pieces=tuple(sorted(pieces, key=lambda piece: (piece.level, piece.start_ns))))
        for lane, pieces in zip(lanes, kept, strict=True)
    )
    return shown, sum(piece.count for _, _, piece in every[MOST_PIECES:])


# --- gaps -------------------------------------------------------------------------------------------------------------


def _gaps(analysis: RankAnalysis, step: tuple[int, int]) -> Iterator[Gap]:
    """The longest, in order of time."""
    gaps = analysis.activity.idle
    starts, ends = np.maximum(gaps.start, step[0]), np.minimum(gaps.end, step[1])
    lengths = ends - starts
    longest = np.argsort(-lengths, kind="stable")[:MOST_GAPS]
    for index in sorted(longest[lengths[longest] > _LEAST_GAP * (step[1] - step[0])].tolist()):
        yield _gap(analysis, (int(starts[index]), int(ends[index])), int(analysis.idle.next_row[index]), step[0])


def _gap(analysis: RankAnalysis, gap: tuple[int, int], next_row: int, zero_ns: int) -> Gap:
    accounts = {account: analysis.idle.accounts[account].clip(*gap) for account in IDLE}
    largest = max(IDLE, key=lambda account: accounts[account].length_ns)
    of_lane = {lane: time.clip(*gap) for lane, time in analysis.idle.of_lane.items()}
    of_lane = {lane: time for lane, time in of_lane.items() if len(time)}
    inside = Idle(accounts=accounts, of_lane=of_lane, next_row=np.array([next_row], np.int64))
    activities = host_activities(analysis.timeline, inside)
    return Gap(
        start_ns=gap[0] - zero_ns,
        end_ns=gap[1] - zero_ns,
        account=largest,
        doing=next((activity for activity in activities if activity.account == largest), None),
        next_name=analysis.name(next_row) if next_row != NONE else "",
    )
