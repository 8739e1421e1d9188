"""One rank in a few kilobytes: its ledger, its tables, its exchanges. A pure function of its timeline and machine."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from redline.hardware.machine import Machine
from redline.ledger.accounts import Account
from redline.ledger.rank.activity import DeviceActivity, Mask, compute_ns, loader_time
from redline.ledger.rank.comparable_ranks import Signature, signature_of
from redline.ledger.rank.digest_limits import (
    LONGEST_NS,
    Amount,
    Count,
    Device,
    Duration,
    Measure,
    Rank,
    RankCount,
    Share,
)
from redline.ledger.rank.exchanges import CollectiveSeries, Exchanges, PackedSpent, exchanges_of
from redline.ledger.rank.host_activity import HostActivity, host_activities
from redline.ledger.rank.kernel_table import KernelRow, kernel_table
from redline.ledger.rank.ledger import Ledger
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.packing import NO_TIME, PackedIntervals
from redline.ledger.rank.phases import PhaseSums
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from redline.ledger.rank.rank_match import RankMatch
from redline.ledger.rank.waits import queue_full
from redline.timeline import timeline as timelines
from redline.timeline.intervals import Intervals
from redline.timeline.problems import Reason
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline
from redline.trace import schema
from redline.trace.devices import alike_device, devices_of
from redline.values import dataclass

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

SHORT_KERNEL_NS = 10_000
RuleMatcher = Callable[[RankAnalysis], tuple[RankMatch, ...]]
MemoryKeeper = Callable[[Timeline], bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """Floating-point operations of one type inside steps, and at which peak they count."""

    dtype: str
    flops: Amount
    recomputed_flops: Amount  # of these: forward work that the backward pass did again
    peak_flops_per_s: Measure  # 0 where it is not known
    peak_origin: str = ""  # catalogue or calibrated; digests of before this was kept do not say
    peak_spread: Share = 0.0  # of a calibrated one


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Figures of a rank that its ledger does not hold; times are of the whole window."""

    device: Device
    device_name: str  # as the driver says it; "" where the trace does not
    machine: str  # whose roofs were used; "" for none
    machine_origin: str
    why_no_machine: str  # what to do about it, where none was used
    fabric_bytes_per_s: Measure  # of the machine, to all others of its domain; 0 where it is not known
    pair_bytes_per_s: Measure  # to one other of them
    fabric_devices: Count  # how many devices that domain has
    nic_bytes_per_s: Measure = 0.0  # of each device to other nodes, in a usual server; older digests do not say
    trace_ns: Duration  # from the first to the last event, watchdogs included
    device_window_ns: Duration  # from the first to the last piece of device work
    computing_ns: Duration
    communicating_ns: Duration  # hidden or not
    loading_ns: Duration  # in a data loader, whether the device was idle or not
    kernels: Count
    short_kernels: Count  # below SHORT_KERNEL_NS
    kernel_ns: Duration  # summed durations
    known_work_ns: Duration  # of kernels whose work is known
    rated_ns: Duration  # of kernels whose work and roofs are known
    above_roof: Count  # calls of operators that were faster than their roof
    without_launch: Count
    without_launch_ns: Duration
    launches: Count
    launches_without_work: Count  # calls that launch a kernel which was not recorded, unless graphs were captured
    graph_launches: Count
    first_queue_ns: Duration  # queue time before the first recorded work of a stream
    longest_queue_ns: Duration  # the longest stretch of queue time


@dataclass(frozen=True, kw_only=True, slots=True)
class DigestOrigin:
    """Where a digest comes from."""

    rank: Rank
    rank_origin: str
    source: str
    host: str
    backend: str
    world_size: RankCount
    recorded: tuple[str, ...]
    versions: dict[str, str]
    synthetic: str
    step_anchor: str
    step_labels: tuple[str, ...]
    phases: tuple[str, ...]  # of the steps of a serving engine; "" for any other
    dropped: dict[str, Count] = field(default_factory=dict)  # what reading dropped, by reason
    predicted: bool = False  # nothing ran: the timeline is that of a plan
    altered: tuple[str, ...] = ()  # what-ifs that the timeline was altered by, as they were written


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """What is known of one rank once its trace is put away."""

    origin: DigestOrigin
    facts: Facts
    zero_ns: int  # Unix time of 0 in the ledger, on the rank's own clock
    window_ns: tuple[int, int]
    ledger: Ledger
    packed_exposed: PackedIntervals
    arithmetic: tuple[Arithmetic, ...]
    signature: Signature  # of the work that it does; alike ranks have alike ones
    kernels: Sequence[KernelRow]
    doing: Sequence[HostActivity]
    exchanges: Exchanges
    spent: PackedSpent  # around each exchange
    series: tuple[CollectiveSeries, ...]
    matches: Sequence[RankMatch] = ()
    left_out: dict[str, int] = field(default_factory=dict)  # what did not fit into the file
    phases: PhaseSums = ()  # of all steps together; none where the trace does not tell them
    step_work: tuple[int, ...] = ()  # FLOPs and bytes of each step on a CPU, as far as shapes tell them; none on a GPU
    step_queue_ns: tuple[int, ...] = ()  # how long the training thread was ready in each step and had no core
    step_host_ns: tuple[int, ...] = ()  # what each step takes the host of a GPU when it waits for nothing; or none
    packed_fsdp_hooks: PackedIntervals = NO_TIME
    memory: bytes = b""  # of its devices, as `analysis.memory` keeps it; none where no allocation was recorded

    @property
    def has_unknown_device(self) -> bool:
        """Whether what may be work of a device could not be used, and nothing else was there."""
        return Reason.UNKNOWN_DEVICE.code in self.origin.dropped

    @property
    def exposed(self) -> Intervals:
        """Communicating and not computing; each look makes it anew."""
        return self.packed_exposed.unpacked()

    @property
    def fsdp_hooks(self) -> Intervals:
        """When a rank that computes on its CPU is in hooks of FSDP; none on a GPU, which computes meanwhile."""
        return self.packed_fsdp_hooks.unpacked()


def digest_of(
    timeline: Timeline,
    machine: Machine | None,
    why_no_machine: str = "",
    match: RuleMatcher | None = None,
    served: "ServedModel | None" = None,
    keep_memory: MemoryKeeper | None = None,
) -> Digest:
    """`match` looks for causes, and `keep_memory` at allocations, while the trace is open."""
    analysis = analysis_of(timeline, machine, served)
    activity, idle, kernels, ledger = analysis.activity, analysis.idle, analysis.kernels, analysis.ledger
    exchanges, spent, series = exchanges_of(timeline, activity, idle, analysis.passes)
    table = kernel_table(timeline, activity, kernels)
    return Digest(
        origin=_origin(timeline),
        facts=_facts(analysis, why_no_machine),
        zero_ns=timeline.zero_ns,
        window_ns=activity.window_ns,
        ledger=ledger,
        packed_exposed=PackedIntervals.of(activity.communicating),
        arithmetic=_arithmetic(analysis),
        signature=signature_of(row.key for row in table if row.operator),
        kernels=table,
        doing=host_activities(timeline, idle),
        exchanges=exchanges.narrow(),
        spent=PackedSpent.of(spent),
        series=series,
        matches=match(analysis) if match is not None else (),
        phases=analysis.phases.sums,
        step_work=_step_work(analysis),
        step_queue_ns=_step_queue_ns(analysis),
        step_host_ns=_step_host_ns(analysis),
        packed_fsdp_hooks=PackedIntervals.of(_fsdp_hooks(analysis)),
        memory=keep_memory(timeline) if keep_memory is not None and len(timeline.memory) else b"",
    )


def _fsdp_hooks(analysis: RankAnalysis) -> Intervals:
    if analysis.on_gpu:
        return Intervals.empty()
    timeline, spans = analysis.timeline, analysis.timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    rows = rows[matching(timeline, rows, schema.is_fsdp_hook)]
    return Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows]).clip(*analysis.activity.window_ns)


def _step_work(analysis: RankAnalysis) -> tuple[int, ...]:
    """Of a GPU it is not asked for: kernels of equal work that take longer there are a cause of their own."""
    if analysis.on_gpu:
        return ()
    calls, ledger = analysis.kernels.calls, analysis.ledger
    begun_ns = analysis.timeline.spans.start_ns[calls.row]
    step = np.searchsorted(ledger.start_ns, begun_ns, side="right") - 1
    inside = (step >= 0) & (begun_ns < np.append(ledger.end_ns, 0)[step])
    work = np.bincount(step[inside], weights=(calls.flops + calls.bytes)[inside], minlength=len(ledger.start_ns))
    return tuple(work.astype(np.int64).tolist())


def _step_queue_ns(analysis: RankAnalysis) -> tuple[int, ...]:
    steps = analysis.timeline.evidence.steps
    if not len(steps) or not steps.within("run_queue_ns", 0, LONGEST_NS):
        return ()
    return tuple(np.round(analysis.counted(steps.run_queue_ns)).astype(np.int64).tolist())


def _step_host_ns(analysis: RankAnalysis) -> tuple[int, ...]:
    """None where no launch was recorded: then nothing is known of the host."""
    timeline = analysis.timeline
    if not analysis.on_gpu or not (timeline.device_work.launch != NONE).any():
        return ()
    held_up = analysis.waits.time | queue_full(timeline)
    for loading in loader_time(timeline).values():
        held_up |= loading
    start_ns, end_ns = analysis.host_steps
    return tuple((end_ns - start_ns - held_up.overlap_with(start_ns, end_ns)).tolist())


def _origin(timeline: Timeline) -> DigestOrigin:
    metadata = timeline.metadata
    labels = tuple(timeline.text(label) for label in timeline.steps.label.tolist())
    dropped = {p.reason.code: p.count for p in timeline.source.problems if p.reason.effect == "dropped"}
    return DigestOrigin(
        rank=timeline.rank,
        rank_origin=timeline.rank_origin,
        source=timeline.source.name,
        host=metadata.host,
        backend=metadata.backend,
        world_size=metadata.world_size,
        recorded=metadata.recorded,
        versions=dict(metadata.versions),
        synthetic=metadata.synthetic,
        step_anchor=timeline.step_anchor,
        step_labels=labels,
        phases=tuple(map(schema.phase_of, labels)),
        dropped=dropped,
        predicted=timeline.origin is timelines.TimelineOrigin.PREDICTED,
        altered=timeline.changes,
    )


def _facts(analysis: RankAnalysis, why_no_machine: str) -> Facts:
    timeline, activity, kernels, machine = analysis.timeline, analysis.activity, analysis.kernels, analysis.machine
    spans, work = timeline.spans, timeline.device_work
    busy = activity.busy
    dur_ns = compute_ns(timeline, activity)
    queue = analysis.idle.accounts[Account.QUEUE]
    unlaunched = (work.launch == NONE) & (spans.kind[work.row] != Kind.SYNC)
    calls = spans.rows_of(*CALL_KINDS)
    launches = calls[matching(timeline, calls, schema.launches_work)]
    if not len(launches):  # of a device whose calls have other names
        launches = calls[np.isin(calls, work.launch)]
    kernel_launches = launches[matching(timeline, launches, schema.launches_kernel)]
    graphs: Mask = matching(timeline, launches, schema.is_graph_launch)
    captures = bool(matching(timeline, calls, schema.is_capture).any())
    return Facts(
        device=activity.device,
        device_name=_device_name(timeline, activity),
        machine=machine.name if machine else "",
        machine_origin=_machine_origin(machine),
        why_no_machine=why_no_machine,
        fabric_bytes_per_s=_figure(machine, "fabric_bytes_per_s"),
        pair_bytes_per_s=_figure(machine, "pair_bytes_per_s"),
        fabric_devices=round(_figure(machine, "fabric_devices")),
        nic_bytes_per_s=_figure(machine, "nic_bytes_per_s"),
        trace_ns=timeline.window_ns[1] - timeline.window_ns[0],
        device_window_ns=int(busy.end[-1] - busy.start[0]) if len(busy) else 0,
        computing_ns=activity.computing.length_ns,
        communicating_ns=activity.communication.where().length_ns,
        loading_ns=sum(time.length_ns for time in loader_time(timeline).values()),
        kernels=len(dur_ns),
        short_kernels=int((dur_ns < SHORT_KERNEL_NS).sum()),
        kernel_ns=int(dur_ns.sum()),
        known_work_ns=int(dur_ns[(kernels.call_of != NONE) | kernels.by_steps.rated].sum()),
        rated_ns=int(dur_ns[kernels.rated].sum()),
        above_roof=int(kernels.calls.above_roof.sum()),
        without_launch=int(unlaunched.sum()),
        without_launch_ns=int(spans.dur_ns[work.row[unlaunched]].sum()),
        launches=len(launches),
        launches_without_work=0 if captures else int((~np.isin(kernel_launches, work.launch)).sum()),
        graph_launches=int(graphs.sum()),
        first_queue_ns=analysis.unowned.length_ns,
        longest_queue_ns=int((queue.end - queue.start).max(initial=0)),
    )


def _device_name(timeline: Timeline, activity: DeviceActivity) -> str:
    """Of a job whose device work was lost, the device is known only if the trace lists no other."""
    lost = alike_device(timeline) if activity.device == "gpu" else ()
    return next((device.name for device in (*devices_of(timeline), *lost)), "")


def _machine_origin(machine: Machine | None) -> str:
    if machine is None:
        return ""
    return ", ".join(sorted({str(figure.origin) for figure in machine.figures.values()}))


def _figure(machine: Machine | None, name: str) -> float:
    """0 where it is not known."""
    figure = machine.figures.get(name) if machine is not None else None
    return figure.value if figure is not None else 0.0


def _arithmetic(analysis: RankAnalysis) -> tuple[Arithmetic, ...]:
    """Of calls that began inside a step."""
    calls, machine = analysis.kernels.calls, analysis.machine
    inside = analysis.in_host_steps.contains(analysis.timeline.spans.start_ns[calls.row])
    by_dtype = []
    for dtype in sorted(set(calls.dtype[inside & (calls.flops > 0)].tolist())):
        chosen = inside & (calls.dtype == dtype) & (calls.flops > 0)
        peak = machine.peak_flops_per_s(dtype) if machine and dtype else None
        by_dtype.append(
            Arithmetic(
                dtype=dtype,
                flops=round(calls.flops[chosen].sum()),
                recomputed_flops=round(calls.flops[chosen & calls.recomputed].sum()),
                peak_flops_per_s=peak.value if peak else 0.0,
                peak_origin=str(peak.origin) if peak else "",
                peak_spread=(peak.spread or 0.0) if peak else 0.0,
            )
        )
    return tuple(by_dtype)
