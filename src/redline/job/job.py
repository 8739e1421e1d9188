"""All ranks of a job, one summary each: read in parallel, in order of rank, their clocks compared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from redline.job.clocks import Clocks, on_one_clock
from redline.job.collectives import RankArrivals, arrivals_of
from redline.job.rank_order import Claim, jobs_among, rank_order
from redline.job.read_failures import Failure
from redline.job.read_files import JobOptions, gather
from redline.progress import Progress, silent
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import BUSY_KINDS, CALL_KINDS, NONE, Kind, Metadata, Source, Timeline, TimelineOrigin
from redline.trace.cache import read_cached
from redline.trace.devices import device_rows, devices_of
from redline.trace.reader import OfFile, ReadOptions
from redline.trace.schema import is_graph_launch
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How much of the device's work can be traced back to the host: counts, and time in summed durations."""

    pieces: int  # kernels, communication, copies and sets
    time_ns: int
    with_launch: int
    with_launch_ns: int
    with_operator: int
    with_operator_ns: int
    graph_launches: int
    from_graphs: int  # pieces that a graph launch started


@dataclass(frozen=True, kw_only=True)
class RankSummary:
    """One rank."""

    rank: int
    rank_origin: str
    origin: TimelineOrigin
    changes: tuple[str, ...]  # what an altered one was altered by
    source: Source
    metadata: Metadata
    device_names: tuple[str, ...]  # of the devices that did work
    zero_ns: int  # Unix time of the first thing in the trace, on the rank's own clock
    start_ns: int  # the same, of the first work: where the window begins
    window_ns: int
    busy_ns: int  # union over all streams
    communication_ns: int  # union
    step_anchor: str
    step_ns: tuple[int, ...]
    kinds: Mapping[str, int]
    spans: int
    coverage: Coverage
    arrivals: RankArrivals


def summarise(timeline: Timeline) -> RankSummary:
    spans = timeline.spans
    start_ns, end_ns = timeline.window_ns
    kinds, counts = np.unique(spans.kind, return_counts=True)
    return RankSummary(
        rank=timeline.rank,
        rank_origin=timeline.rank_origin,
        origin=timeline.origin,
        changes=timeline.changes,
        source=timeline.source,
        metadata=timeline.metadata,
        device_names=tuple(dict.fromkeys(device.name for device in devices_of(timeline))),
        zero_ns=timeline.zero_ns,
        start_ns=timeline.zero_ns + start_ns,
        window_ns=end_ns - start_ns,
        busy_ns=_union_ns(timeline, device_rows(timeline)),
        communication_ns=_union_ns(timeline, spans.rows_of(Kind.COMMUNICATION)),
        step_anchor=timeline.step_anchor,
        step_ns=tuple((timeline.steps.end_ns - timeline.steps.start_ns).tolist()),
        kinds={Kind(kind).name.lower(): count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)},
        spans=len(spans),
        coverage=_coverage(timeline),
        arrivals=arrivals_of(timeline),
    )


def _union_ns(timeline: Timeline, rows: I64) -> int:
    starts = timeline.spans.start_ns[rows]
    return Intervals.union_of(starts, starts + timeline.spans.dur_ns[rows]).length_ns


def _coverage(timeline: Timeline) -> Coverage:
    spans, work = timeline.spans, timeline.device_work
    work = work.take(np.isin(spans.kind[work.row], np.array(BUSY_KINDS, np.uint8)))
    dur_ns = spans.dur_ns[work.row]
    launched, operated = work.launch != NONE, work.operator != NONE
    calls = spans.rows_of(*CALL_KINDS)
    graph_names = [name for name in np.unique(spans.name[calls]).tolist() if is_graph_launch(timeline.texts[name])]
    graph_calls = calls[np.isin(spans.name[calls], np.array(graph_names, np.int32))]
    return Coverage(
        pieces=len(work),
        time_ns=int(dur_ns.sum()),
        with_launch=int(launched.sum()),
        with_launch_ns=int(dur_ns[launched].sum()),
        with_operator=int(operated.sum()),
        with_operator_ns=int(dur_ns[operated].sum()),
        graph_launches=len(graph_calls),
        from_graphs=int(np.isin(work.launch, graph_calls).sum()),
    )


@dataclass(frozen=True, kw_only=True)
class Job:
    """The ranks of a job in order, and what is wrong with the set."""

    ranks: tuple[RankSummary, ...]
    places: tuple[tuple[Path, int], ...]  # for each rank its file, and which timeline in that file it is
    clocks: Clocks
    doubles: tuple[int, ...]
    missing: tuple[int, ...]
    world_size: int
    failures: tuple[Failure, ...]

    @property
    def jobs(self) -> int:
        return jobs_among([rank.zero_ns for rank in self.ranks])

    @property
    def changes(self) -> tuple[str, ...]:
        """The what-ifs that its timelines were altered by; none where they were not."""
        return tuple(dict.fromkeys(change for rank in self.ranks for change in rank.changes))


def read_job(paths: Sequence[Path], options: JobOptions, progress: Progress = silent) -> Job:
    """Summaries of every rank in these files. Raises InputError only where not one rank can be read."""
    work = partial(_summarised, options=options.reading_of(paths), folder=options.cache)
    results, failures = gather(work, paths, options, progress)
    read = [
        (summary, (paths[index], number))
        for index in sorted(results)
        for number, summary in enumerate(results[index].ranks)
    ]
    order = rank_order(
        [
            Claim(rank=timeline.rank, origin=timeline.rank_origin, world_size=timeline.metadata.world_size)
            for timeline, _ in read
        ]
    )
    ranks = tuple(replace(read[place.index][0], rank=place.rank, rank_origin=place.origin) for place in order.places)
    return Job(
        ranks=ranks,
        places=tuple(read[place.index][1] for place in order.places),
        clocks=on_one_clock([rank.arrivals for rank in ranks])[2],
        doubles=order.doubles,
        missing=order.missing if len(order.places) > 1 else (),  # a single trace may be looked at for itself
        world_size=order.world_size,
        failures=tuple(failures),
    )


def _summarised(path: Path, options: ReadOptions, folder: Path | None) -> OfFile[RankSummary]:
    reading = read_cached(path, options, folder)
    return OfFile(ranks=tuple(map(summarise, reading.timelines)), failures=reading.failures)
