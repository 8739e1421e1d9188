"""Parts of a critical path: accounts, phases, operators or kernels, ranks."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from redline.findings.match import COMPUTE
from redline.findings.replayed import CriticalPathParts, PathPart
from redline.ledger.accounts import Account
from redline.ledger.rank.activity import loader_time, own_time_of_operators
from redline.ledger.rank.host_phases import PHASES, HostPhases
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.replay.critical_path import CriticalPath
from redline.replay.digest_graph import LINE, DigestGraph, Part
from redline.replay.edges import EdgeKind
from redline.replay.job_graph import JobGraph
from redline.timeline.intervals import Intervals
from redline.timeline.table import I32, I64, Column, grouped
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.values import dataclass

MOST_PARTS = 12  # of the operators and of the ranks
ACCOUNT_OF: Mapping[EdgeKind, str] = {
    EdgeKind.HOST: Account.HOST,
    EdgeKind.RETURN: Account.HOST,
    EdgeKind.LOADER: Account.INPUT,
    EdgeKind.LAUNCH: Account.QUEUE,
    EdgeKind.STREAM: Account.QUEUE,
    EdgeKind.EVENT: Account.QUEUE,
    EdgeKind.QUEUE: Account.QUEUE,
    EdgeKind.DEVICE: COMPUTE,
    EdgeKind.TRANSFER: Account.TRANSFER,
    EdgeKind.WAIT: Account.SYNC,
    EdgeKind.PIN: Account.OTHER,
    EdgeKind.BORDER: Account.OTHER,
}
_COARSE_ACCOUNT_OF: Mapping[EdgeKind, str] = {
    EdgeKind.TRANSFER: Account.TRANSFER,
    EdgeKind.STREAM: Account.TRANSFER,  # behind another exchange
    EdgeKind.LAUNCH: Account.QUEUE,
    EdgeKind.RETURN: Account.HOST,
}
_PART_NAMES: Mapping[Part, str] = {
    Part.COMPUTE: COMPUTE,
    Part.HOST: Account.HOST,
    Part.INPUT: Account.INPUT,
    Part.OTHER: Account.OTHER,
}
_APART_NS = 1 << 47  # over a day
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OperatorTimes:
    """Stretches in which an operator runs itself, by thread and time; one clock after the other, `_APART_NS` apart."""

    start_ns: I64
    end_ns: I64
    row: I64

    @classmethod
    def of(cls, timeline: Timeline) -> "OperatorTimes":
        row, start_ns, end_ns = own_time_of_operators(timeline)
        shift_ns = clock_shift(timeline.spans.lane[row])
        order = np.argsort(start_ns + shift_ns, kind="stable")
        return cls(start_ns=(start_ns + shift_ns)[order], end_ns=(end_ns + shift_ns)[order], row=row[order])


@dataclass(frozen=True, kw_only=True)
class PathLabels:
    """Names for the pieces of a path on one rank: small enough to outlive its trace."""

    texts: tuple[str, ...]
    row_name: I32  # of each span
    row_kind: Column
    row_phase: Column  # of each span, by place in PHASES; of device work that of its launch
    phases: HostPhases | None  # None where they are not known
    loading: Mapping[int, Intervals]  # by thread
    on_gpu: bool
    own: OperatorTimes


def labels_of(analysis: RankAnalysis) -> PathLabels:
    timeline = analysis.timeline
    spans, work = timeline.spans, timeline.device_work
    known = analysis.phases.known
    begun_ns = spans.start_ns.copy()
    launched = work.launch != NONE
    begun_ns[work.row[launched]] = spans.start_ns[work.launch[launched]]
    return PathLabels(
        texts=tuple(timeline.texts),
        row_name=spans.name,
        row_kind=spans.kind,
        row_phase=analysis.phases.host.at(begun_ns).astype(np.uint8) if known else np.empty(0, np.uint8),
        phases=analysis.phases.host if known else None,
        loading=loader_time(timeline),
        on_gpu=analysis.on_gpu,
        own=OperatorTimes.of(timeline),
    )


def parts_of(
    path: CriticalPath, job: JobGraph, labels: Sequence[PathLabels], steps: int, *, only_accounts: bool = False
) -> CriticalPathParts:
    """Times are of the average step."""
    tables = _Tables()
    for rank, here in grouped(path.rank):
        if 0 <= rank < len(labels):
            _add_rank(tables, path.take(here), job, rank, labels[rank], only_accounts=only_accounts)
        else:
            tables.add("accounts", [(Account.TRANSFER, float(path.dur_ns[here].sum()))])
    return CriticalPathParts(
        accounts=tables.parts("accounts", steps),
        phases=tables.parts("phases", steps),
        operators=tables.parts("operators", steps),
        ranks=tables.parts("ranks", steps) if len(labels) > 1 else (),
    )


def coarse_parts_of(path: CriticalPath, job: JobGraph, graphs: Sequence[DigestGraph], steps: int) -> CriticalPathParts:
    """Parts of a path through graphs of digests: a piece of a rank's line is named by what the rank did."""
    tables = _Tables()
    for rank, here in grouped(path.rank):
        pieces = path.take(here)
        amounts = pieces.dur_ns.astype(np.float64)
        if 0 <= rank < len(graphs):
            tables.add("ranks", [(str(job.graphs[rank].rank), float(amounts.sum()))])
        for kind, of_kind in grouped(pieces.kind):
            if kind == LINE:
                part = graphs[rank].pieces.part[pieces.row[of_kind]]
                sums = np.bincount(part, weights=amounts[of_kind], minlength=len(Part))
                tables.add("accounts", zip(_PART_NAMES.values(), sums.tolist(), strict=True))
            else:
                account = _COARSE_ACCOUNT_OF.get(EdgeKind(kind), Account.OTHER)
                tables.add("accounts", [(account, float(amounts[of_kind].sum()))])
    return CriticalPathParts(
        accounts=tables.parts("accounts", steps),
        ranks=tables.parts("ranks", steps) if len(graphs) > 1 else (),
    )


class _Tables:
    """Times added up by name."""

    def __init__(self) -> None:
        self._times: dict[str, dict[str, float]] = {}

    def add(self, table: str, amounts: Iterable[tuple[str, float]]) -> None:
        times = self._times.setdefault(table, {})
        for what, amount_ns in amounts:
            times[str(what)] = times.get(str(what), 0.0) + amount_ns

    def parts(self, table: str, steps: int) -> tuple[PathPart, ...]:
        times = self._times.get(table, {})
        whole_ns = sum(self._times.get("accounts", {}).values()) or 1.0
        longest = sorted(times.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            PathPart(what=what, time_ns=amount_ns / max(steps, 1), share=amount_ns / whole_ns)
            for what, amount_ns in longest[:MOST_PARTS]
            if amount_ns > 0
        )


def _add_rank(
    tables: _Tables, path: CriticalPath, job: JobGraph, rank: int, labels: PathLabels, *, only_accounts: bool
) -> None:
    """A piece is called what lay where it was measured."""
    clock_ns, edges = int(job.shift_ns[rank]), job.edges
    begin_ns = job.time_ns[edges.tail[path.edge]] - clock_ns
    until_ns = np.maximum(job.time_ns[edges.head[path.edge]] - clock_ns, begin_ns)
    dur_ns = path.dur_ns.astype(np.float64)
    has_row = path.row >= 0
    tables.add("ranks", [(str(job.graphs[rank].rank), float(dur_ns.sum()))])
    is_host = np.isin(path.kind, (EdgeKind.HOST, EdgeKind.RETURN))
    scale = dur_ns / np.maximum(until_ns - begin_ns, 1)
    loading = np.zeros(len(path))
    for lane, here in grouped(path.lane):
        if lane in labels.loading:
            loading[here] = labels.loading[lane].overlap_with(begin_ns[here], until_ns[here])
    loading = np.where(is_host, loading * scale, 0.0)
    own = np.zeros(len(path))
    if not (labels.on_gpu and only_accounts):
        shift_ns = clock_shift(path.lane)
        own = _add_operators(tables, labels, np.flatnonzero(is_host), begin_ns + shift_ns, until_ns + shift_ns, scale)
    if labels.on_gpu:
        own = np.zeros(len(own))  # they launch
    tables.add("accounts", [(Account.INPUT, float(loading.sum())), (COMPUTE, float(own.sum()))])
    for kind, here in grouped(path.kind):
        left = dur_ns[here] - (np.minimum(loading + own, dur_ns)[here] if is_host[here].any() else 0.0)
        copies = has_row[here] & np.isin(labels.row_kind[path.row[here]], (Kind.COPY, Kind.SET))
        is_copy = copies & (kind == EdgeKind.DEVICE)
        tables.add("accounts", [(Account.COPY, float(left[is_copy].sum()))])
        tables.add("accounts", [(ACCOUNT_OF[EdgeKind(kind)], float(left[~is_copy].sum()))])
    if only_accounts:
        return
    device = np.flatnonzero(has_row & np.isin(path.kind, (EdgeKind.DEVICE, EdgeKind.TRANSFER)))
    names = labels.row_name[path.row[device]]
    tables.add("operators", _by_name(labels.texts, names, dur_ns[device]))
    if labels.phases is not None:
        tables.add("phases", _by_phase(labels.phases, labels.row_phase, path, clock_ns))


def _by_phase(phases: HostPhases, row_phase: Column, path: CriticalPath, clock_ns: int) -> Iterable[tuple[str, float]]:
    """Work of the device is in the phase of its launch; all else in those that the host is in meanwhile, as a stretch
    of the host may last for a whole step."""
    launched = path.row >= 0
    amounts = np.bincount(row_phase[path.row[launched]], weights=path.dur_ns[launched], minlength=len(PHASES))
    begin_ns = path.start_ns[~launched] - clock_ns
    for phase, of_device in zip(PHASES, amounts.tolist(), strict=True):
        meanwhile = phases.when(phase).overlap_with(begin_ns, begin_ns + path.dur_ns[~launched])
        yield str(phase), of_device + float(meanwhile.sum())


def _add_operators(
    tables: _Tables, labels: PathLabels, host: I64, begin_ns: I64, until_ns: I64, scale: Floats
) -> Floats:
    """Add operators that ran in stretches of the host by name; how much of each piece they are."""
    own = np.zeros(len(begin_ns))
    times = labels.own
    first = np.searchsorted(times.end_ns, begin_ns[host], side="right")
    last = np.searchsorted(times.start_ns, until_ns[host], side="left")
    counts = np.maximum(last - first, 0)
    piece = np.repeat(host, counts)
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    amount_ns = np.minimum(times.end_ns[place], until_ns[piece]) - np.maximum(times.start_ns[place], begin_ns[piece])
    amount = np.maximum(amount_ns, 0) * scale[piece]
    own += np.bincount(piece, weights=amount, minlength=len(own))
    tables.add("operators", _by_name(labels.texts, labels.row_name[times.row[place]], amount))
    return own


def clock_shift(lane: Column | I64) -> I64:
    """So that the clocks of threads lie one after the other."""
    shift_ns: I64 = (lane.astype(np.int64) + 1) * _APART_NS
    return shift_ns


def _by_name(texts: Sequence[str], names: npt.NDArray[np.integer], amounts: Floats) -> Iterable[tuple[str, float]]:
    distinct, which = np.unique(names, return_inverse=True)
    sums = np.bincount(which, weights=amounts, minlength=len(distinct))
    return ((texts[name], amount) for name, amount in zip(distinct.tolist(), sums.tolist(), strict=True))
