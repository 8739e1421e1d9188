"""The critical path of a job's steps as slices for a track of its own: what each part is, and on which rank."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from redline.findings.match import COMPUTE
from redline.findings.path_parts import ACCOUNT_OF, PathLabels, clock_shift, labels_of
from redline.findings.replay_job import too_large
from redline.ledger.accounts import Account
from redline.ledger.rank.rank_analysis import analysis_of
from redline.replay.critical_path import CriticalPath, critical_path_of
from redline.replay.edges import EdgeKind
from redline.replay.forecast import JobReplay, RankReplay, rank_replay
from redline.replay.job_graph import JobGraph
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace.perfetto import DrawnSlice
from redline.values import dataclass

_HOST = (EdgeKind.HOST, EdgeKind.RETURN)
_DEVICE = (EdgeKind.DEVICE, EdgeKind.TRANSFER)


@dataclass(frozen=True, kw_only=True)
class PathTrack:
    """A slice for each step, and inside it slices of its path; or why there is none."""

    slices: tuple[DrawnSlice, ...] = ()
    steps: int = 0
    declined: str = ""


def path_track(timelines: Iterable[Timeline]) -> PathTrack:
    """The track of a job, its ranks in order. Times are Unix times on the common clock of the job."""
    ranks: list[RankReplay] = []
    labels: list[PathLabels] = []
    edges = 0
    for timeline in timelines:
        ranks.append(rank_replay(timeline))
        labels.append(labels_of(analysis_of(timeline, None)))
        edges += len(ranks[-1].graph.edges)
        declined = too_large(len(ranks), edges)
        if declined:
            return PathTrack(declined=declined)
    replay = JobReplay(ranks, ())
    if replay.declined:
        return PathTrack(declined=replay.declined)
    starts_ns, ends_ns, _ = replay.borders(replay.job.time_ns)
    parts = list(_parts(critical_path_of(replay), replay.job, labels))
    slices = list(_slices(parts, starts_ns.tolist(), ends_ns.tolist(), several=len(ranks) > 1))
    zero_ns = replay.job.zero_ns
    return PathTrack(
        slices=tuple(replace(drawn, start_ns=drawn.start_ns + zero_ns) for drawn in slices), steps=len(starts_ns)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A part of the path that is one thing."""

    step: int
    start_ns: int  # on the clock of the job
    end_ns: int
    account: str
    what: str  # an operator or a kernel; "" for neither
    row: int  # its span
    rank: int  # NONE where ranks meet

    def goes_on(self, other: "_Part") -> bool:
        same = (self.step, self.account, self.row, self.rank) == (other.step, other.account, other.row, other.rank)
        return same and self.end_ns == other.start_ns


def _slices(parts: Sequence[_Part], starts_ns: list[int], ends_ns: list[int], *, several: bool) -> Iterator[DrawnSlice]:
    """Steps of ranks that are not in step overlap, and then are on tracks of their own."""
    by_step: dict[int, list[_Part]] = {}
    for part in parts:
        of_step = by_step.setdefault(part.step, [])
        if of_step and of_step[-1].goes_on(part):
            of_step[-1] = replace(of_step[-1], end_ns=part.end_ns)
        else:
            of_step.append(part)
    free_ns: list[int] = []  # when each track is free again
    for step, (start_ns, end_ns) in enumerate(zip(starts_ns, ends_ns, strict=True)):
        track = next((track for track, time_ns in enumerate(free_ns) if time_ns <= start_ns), len(free_ns))
        free_ns[track : track + 1] = [end_ns]
        yield DrawnSlice(track=track, start_ns=start_ns, dur_ns=end_ns - start_ns, name=f"step {step + 1}")
        for part in by_step.get(step, ()):
            name = f"{part.account}: {part.what}" if part.what else part.account
            on_rank = f" (rank {part.rank})" if several and part.rank != NONE else ""
            yield DrawnSlice(
                track=track, start_ns=part.start_ns, dur_ns=part.end_ns - part.start_ns, name=f"{name}{on_rank}"
            )


def _parts(path: CriticalPath, job: JobGraph, labels: Sequence[PathLabels]) -> Iterator[_Part]:
    columns = (path.step, path.rank, path.start_ns, path.dur_ns, path.kind, path.row, path.lane)
    for step, place, start_ns, dur_ns, kind, row, lane in zip(*(column.tolist() for column in columns), strict=True):
        whole = _Part(
            step=step,
            start_ns=start_ns,
            end_ns=start_ns + dur_ns,
            account=ACCOUNT_OF[EdgeKind(kind)],
            what="",
            row=NONE,
            rank=NONE,
        )
        if place == NONE:
            yield replace(whole, account=str(Account.TRANSFER))
            continue
        whole = replace(whole, rank=job.graphs[place].rank)
        if kind in _HOST:
            yield from _of_host(whole, labels[place], lane, int(job.shift_ns[place]))
        elif kind in _DEVICE and row != NONE:
            yield _of_device(whole, labels[place], row)
        else:
            yield whole


def _of_device(whole: _Part, labels: PathLabels, row: int) -> _Part:
    is_copy = labels.row_kind[row] in (Kind.COPY, Kind.SET)
    account = str(Account.COPY) if is_copy else whole.account
    return replace(whole, account=account, what=labels.texts[labels.row_name[row]], row=row)


def _of_host(whole: _Part, labels: PathLabels, lane: int, rank_shift_ns: int) -> Iterator[_Part]:
    """Cut where an operator begins or ends to run itself; between operators a thread loads, or does anything else."""
    own, lane_shift_ns = labels.own, int(clock_shift(np.array([lane]))[0])
    to_own_ns = lane_shift_ns - rank_shift_ns
    begin_ns, until_ns = whole.start_ns + to_own_ns, whole.end_ns + to_own_ns
    first, last = np.searchsorted(own.end_ns, begin_ns, side="right"), np.searchsorted(own.start_ns, until_ns)
    at_ns = begin_ns
    for place in range(first, last):
        start_ns, end_ns = max(int(own.start_ns[place]), at_ns), min(int(own.end_ns[place]), until_ns)
        if start_ns > at_ns:
            yield _between(whole, labels, lane, at_ns - to_own_ns, start_ns - to_own_ns, rank_shift_ns)
        yield replace(
            whole,
            start_ns=start_ns - to_own_ns,
            end_ns=end_ns - to_own_ns,
            account=whole.account if labels.on_gpu else str(COMPUTE),
            what=labels.texts[labels.row_name[own.row[place]]],
            row=int(own.row[place]),
        )
        at_ns = end_ns
    if until_ns > at_ns:
        yield _between(whole, labels, lane, at_ns - to_own_ns, until_ns - to_own_ns, rank_shift_ns)


def _between(whole: _Part, labels: PathLabels, lane: int, start_ns: int, end_ns: int, rank_shift_ns: int) -> _Part:
    loading = labels.loading.get(lane)
    own_clock = np.array([start_ns - rank_shift_ns]), np.array([end_ns - rank_shift_ns])
    loaded_ns = 0 if loading is None else int(loading.overlap_with(*own_clock)[0])
    account = str(Account.INPUT) if 2 * loaded_ns > end_ns - start_ns else whole.account
    return replace(whole, start_ns=start_ns, end_ns=end_ns, account=account)
