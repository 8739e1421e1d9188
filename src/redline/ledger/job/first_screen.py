"""The first screen of a diagnosis, as numbers: steps, the way from the redline to the measured step, what is unseen."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import median

from redline.ledger.accounts import ACCOUNTS, LOSSES, Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.lateness import LateRank
from redline.ledger.rank.digest import Arithmetic, Digest
from redline.timeline.problems import Reason
from redline.values import dataclass

_UNEVEN = 3  # times the median: an average over such steps is that of its longest
_NOTABLE = 0.03  # of the window: less than this needs no remark


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Steps of all ranks, in ns."""

    steps: int  # that every rank has
    median_ns: float
    shortest_ns: int
    longest_ns: int
    window_ns: float  # average of the ranks, as are the next five
    in_steps_ns: float
    trace_ns: float
    uneven: bool  # the longest is many times the median
    device_window_ns: float  # from the first to the last piece of device work
    busy_ns: float
    computing_ns: float


@dataclass(frozen=True, kw_only=True)
class WaterfallBar:
    """One account in the average step of a rank, and what it starts from in the waterfall."""

    account: Account
    time_ns: float
    before_ns: float
    share: float


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Arithmetic done against what the peak allows in the time of the steps."""

    mfu: float  # without work that the backward pass did again
    hfu: float  # with it
    flops: int  # per rank and step
    recomputed_flops: int
    step_ns: float
    peaks: dict[str, float]  # FLOP/s by type
    peak_origins: tuple[str, ...]  # catalogue, calibrated: who says so
    peak_spread: float  # of those that were calibrated, the largest: by this share the ratios may be off
    model_flops: dict[str, int]  # by type, per rank and step, without those that were done again: what mfu counts
    unrated_flops: int  # per rank and step: their type has no known peak, so they are in neither ratio
    known_share: float  # of the kernel time: whose work is known. Below 1, the ratios are lower bounds


class Unseen(StrEnum):
    """What could not be seen; the value is the code in JSON."""

    SYNTHETIC = "synthetic"
    PREDICTED = "predicted"
    ALTERED = "altered"
    NO_PEAK = "no_peak"
    NO_DTYPE_PEAK = "no_dtype_peak"
    UNUSABLE_FIGURES = "unusable_figures"
    UNKNOWN_WORK = "unknown_work"
    ABOVE_ROOF = "above_roof"
    NO_HOST = "no_host"
    NO_DEVICE = "no_device"
    NO_DEVICE_WORK = "no_device_work"
    UNKNOWN_DEVICE = "unknown_device"
    ONE_RANK = "one_rank"
    UNMATCHED = "unmatched"
    CLOCKS = "clocks"
    NO_LAUNCH = "no_launch"
    LOST_WORK = "lost_work"
    FIRST_QUEUE = "first_queue"
    OTHER = "other"
    NO_STACKS = "no_stacks"
    NO_STEPS = "no_steps"
    OUTSIDE_STEPS = "outside_steps"
    POLLING = "polling"
    DROPPED = "dropped"
    MISSING_RANKS = "missing_ranks"
    DOUBLE_RANKS = "double_ranks"
    SEVERAL_JOBS = "several_jobs"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, kw_only=True)
class Remark:
    """One thing that could not be seen: of how many ranks, how much of it, and a detail in words of the trace."""

    what: Unseen
    ranks: int = 0
    count: int = 0
    time_ns: int = 0
    share: float = 0.0
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What the first screen shows."""

    steps: StepTimes
    waterfall: tuple[WaterfallBar, ...]
    largest: tuple[WaterfallBar, ...]  # losses, the largest first; none below a percent of the step
    utilisation: Utilisation | None
    late: LateRank | None  # the rank that most waiting is for, where that is much
    unseen: tuple[Remark, ...]


def outline_of(diagnosis: Diagnosis) -> Outline:
    waterfall = _waterfall(diagnosis)
    losses = sorted((bar for bar in waterfall if bar.account in LOSSES), key=lambda bar: -bar.time_ns)
    return Outline(
        steps=_step_times(diagnosis),
        waterfall=waterfall,
        largest=tuple(bar for bar in losses if bar.share >= 0.01),
        utilisation=utilisation_of(diagnosis),
        late=_late(diagnosis),
        unseen=tuple(_unseen(diagnosis)),
    )


def _late(diagnosis: Diagnosis) -> LateRank | None:
    """One rank that causes most of the waiting, if that takes a notable part of the time of all ranks."""
    if diagnosis.lateness is None or not diagnosis.lateness.ranks:
        return None
    late = diagnosis.lateness.ranks[0]
    window_ns = sum(rank.ledger.window_ns for rank in diagnosis.ranks)
    return late if late.share >= 0.5 and late.caused_ns >= _NOTABLE * window_ns else None


def _step_times(diagnosis: Diagnosis) -> StepTimes:
    lengths = [(rank.ledger.end_ns - rank.ledger.start_ns).tolist() for rank in diagnosis.ranks]
    every = [length for rank in lengths for length in rank]
    count = len(diagnosis.ranks)
    return StepTimes(
        steps=min(map(len, lengths)),
        median_ns=median(every) if every else 0,
        shortest_ns=min(every, default=0),
        longest_ns=max(every, default=0),
        window_ns=sum(rank.ledger.window_ns for rank in diagnosis.ranks) / count,
        in_steps_ns=sum(every) / count,
        trace_ns=sum(rank.facts.trace_ns for rank in diagnosis.ranks) / count,
        uneven=bool(every) and max(every) > _UNEVEN * median(every),
        device_window_ns=sum(rank.facts.device_window_ns for rank in diagnosis.ranks) / count,
        busy_ns=sum(rank.ledger.busy_ns for rank in diagnosis.ranks) / count,
        computing_ns=sum(rank.facts.computing_ns for rank in diagnosis.ranks) / count,
    )


def _waterfall(diagnosis: Diagnosis) -> tuple[WaterfallBar, ...]:
    amounts = diagnosis.per_step
    step_ns = sum(amounts.values()) or 1.0
    bars, reached_ns = [], 0.0
    for account in ACCOUNTS:
        time_ns = amounts[account]
        bars.append(WaterfallBar(account=account, time_ns=time_ns, before_ns=reached_ns, share=time_ns / step_ns))
        reached_ns += time_ns
    return tuple(bars)


def utilisation_of(diagnosis: Diagnosis) -> Utilisation | None:
    """None where no arithmetic has both known work and a known peak."""
    steps = diagnosis.rank_steps
    rows = [row for rank in diagnosis.ranks for row in rank.arithmetic]
    rated = [row for row in rows if row.peak_flops_per_s]
    step_ns = float(diagnosis.in_steps.sum()) / max(steps, 1)
    if not rated or not step_ns:
        return None
    done_s = sum(row.flops / row.peak_flops_per_s for row in rated)
    again_s = sum(row.recomputed_flops / row.peak_flops_per_s for row in rated)
    total_s = step_ns * steps / 1e9
    kernel_ns = sum(rank.facts.kernel_ns for rank in diagnosis.ranks)
    return Utilisation(
        mfu=(done_s - again_s) / total_s,
        hfu=done_s / total_s,
        flops=round(sum(row.flops for row in rated) / steps),
        recomputed_flops=round(sum(row.recomputed_flops for row in rated) / steps),
        step_ns=step_ns,
        peaks={row.dtype: row.peak_flops_per_s for row in rated},
        peak_origins=tuple(sorted({row.peak_origin for row in rated if row.peak_origin})),
        peak_spread=max(row.peak_spread for row in rated),
        model_flops=_model_flops(rated, steps),
        unrated_flops=round(sum(row.flops for row in rows if not row.peak_flops_per_s) / steps),
        known_share=sum(rank.facts.known_work_ns for rank in diagnosis.ranks) / max(kernel_ns, 1),
    )


def _model_flops(rated: Sequence[Arithmetic], steps: int) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rated:
        sums[row.dtype] = sums.get(row.dtype, 0) + row.flops - row.recomputed_flops
    return {dtype: round(flops / steps) for dtype, flops in sorted(sums.items())}


# --- what could not be seen -------------------------------------------------------------------------------------------


def _unseen(diagnosis: Diagnosis) -> Iterator[Remark]:
    ranks = diagnosis.ranks
    yield from _of_set(diagnosis)
    yield from _of_hardware(diagnosis)
    yield from _of_communication(diagnosis)
    for what, count, time_ns in (
        (Unseen.NO_LAUNCH, [rank.facts.without_launch for rank in ranks], [r.facts.without_launch_ns for r in ranks]),
        (Unseen.LOST_WORK, [_lost(rank) for rank in ranks], [0] * len(ranks)),
        (Unseen.FIRST_QUEUE, [0] * len(ranks), [_notable(rank, rank.facts.first_queue_ns) for rank in ranks]),
        (Unseen.OTHER, [0] * len(ranks), [_notable(rank, rank.ledger.of(Account.OTHER)) for rank in ranks]),
        (Unseen.OUTSIDE_STEPS, [0] * len(ranks), [_notable(rank, int(rank.ledger.outside.sum())) for rank in ranks]),
        (Unseen.POLLING, [0] * len(ranks), [_notable(rank, _polling_ns(rank)) for rank in ranks]),
        (Unseen.DROPPED, [sum(rank.origin.dropped.values()) for rank in ranks], [0] * len(ranks)),
    ):
        concerned = sum(1 for amount, time in zip(count, time_ns, strict=True) if amount or time)
        if concerned:
            share = sum(time_ns) / max(sum(rank.ledger.window_ns for rank in ranks), 1)
            yield Remark(what=what, ranks=concerned, count=sum(count), time_ns=sum(time_ns), share=share)
    left_out = [rank for rank in ranks if rank.left_out.get("exchanges")]
    if left_out:
        missing = sum(rank.left_out["exchanges"] for rank in left_out)
        yield Remark(what=Unseen.LEFT_OUT, ranks=len(left_out), count=missing)


def _of_set(diagnosis: Diagnosis) -> Iterator[Remark]:
    ranks = diagnosis.ranks
    altered = [rank for rank in ranks if rank.origin.altered]
    if altered:
        yield Remark(what=Unseen.ALTERED, ranks=len(altered), detail=diagnosis.altered)
    synthetic = [rank for rank in ranks if rank.origin.synthetic and not rank.origin.altered]
    if synthetic:
        what = Unseen.PREDICTED if diagnosis.predicted else Unseen.SYNTHETIC
        yield Remark(what=what, ranks=len(synthetic), detail=synthetic[0].origin.synthetic)
    if diagnosis.missing and len(ranks) > 1:  # of one rank, how its waiting is counted says so
        yield Remark(what=Unseen.MISSING_RANKS, count=len(diagnosis.missing), detail=_listed(diagnosis.missing))
    if diagnosis.doubles:
        yield Remark(what=Unseen.DOUBLE_RANKS, count=len(diagnosis.doubles), detail=_listed(diagnosis.doubles))
    if diagnosis.jobs > 1:
        yield Remark(what=Unseen.SEVERAL_JOBS, count=diagnosis.jobs)
    no_device = [rank for rank in ranks if rank.facts.device == "cpu"]
    if no_device:
        yield Remark(what=Unseen.NO_DEVICE, ranks=len(no_device))
    unknown = [rank for rank in ranks if rank.has_unknown_device]
    if unknown:
        spans = sum(rank.origin.dropped[Reason.UNKNOWN_DEVICE.code] for rank in unknown)
        yield Remark(what=Unseen.UNKNOWN_DEVICE, ranks=len(unknown), count=spans)
    with_device = [rank for rank in ranks if rank.facts.device == "gpu" and not rank.has_unknown_device]
    no_host = [rank for rank in with_device if not rank.facts.launches]
    if no_host:
        yield Remark(what=Unseen.NO_HOST, ranks=len(no_host))
    undone = [rank for rank in with_device if not rank.facts.device_window_ns]
    if undone:
        yield Remark(what=Unseen.NO_DEVICE_WORK, ranks=len(undone), count=sum(r.facts.launches for r in undone))
    unmarked = [rank for rank in ranks if rank.origin.step_anchor.startswith("no mark")]
    if unmarked:
        yield Remark(what=Unseen.NO_STEPS, ranks=len(unmarked), detail=unmarked[0].origin.step_anchor)
    host_ns = diagnosis.per_step[Account.HOST] + diagnosis.per_step[Account.SYNC]
    unstacked = [rank for rank in ranks if not any(row.site for row in rank.doing)]
    if unstacked and not diagnosis.predicted and host_ns > 0.1 * sum(diagnosis.per_step.values()):
        yield Remark(what=Unseen.NO_STACKS, ranks=len(unstacked))


def _of_hardware(diagnosis: Diagnosis) -> Iterator[Remark]:
    ranks = diagnosis.ranks
    unknown = [rank for rank in ranks if not rank.facts.machine]
    if unknown:
        yield Remark(what=Unseen.NO_PEAK, ranks=len(unknown), detail=unknown[0].facts.why_no_machine)
    lacking = sorted(
        {row.dtype for rank in ranks if rank.facts.machine for row in rank.arithmetic if not row.peak_flops_per_s}
    )
    if lacking:
        yield Remark(what=Unseen.NO_DTYPE_PEAK, detail=", ".join(lacking))
    declined = [rank for rank in ranks if rank.facts.machine and rank.facts.why_no_machine]
    if declined:
        yield Remark(what=Unseen.UNUSABLE_FIGURES, ranks=len(declined), detail=declined[0].facts.why_no_machine)
    kernel_ns = sum(rank.facts.kernel_ns for rank in ranks)
    unknown_ns = kernel_ns - sum(rank.facts.known_work_ns for rank in ranks)
    if unknown_ns > _NOTABLE * kernel_ns:
        # Old traces do not say what was recorded: any work that is known came from shapes.
        no_shapes = unknown_ns == kernel_ns and all("shapes" not in rank.origin.recorded for rank in ranks)
        detail = "no shapes recorded" if no_shapes else ""
        yield Remark(what=Unseen.UNKNOWN_WORK, time_ns=unknown_ns, share=unknown_ns / max(kernel_ns, 1), detail=detail)
    above = sum(rank.facts.above_roof for rank in ranks)
    if above:
        yield Remark(what=Unseen.ABOVE_ROOF, ranks=sum(1 for r in ranks if r.facts.above_roof), count=above)


def _of_communication(diagnosis: Diagnosis) -> Iterator[Remark]:
    """In a prediction, members of a group that are not drawn do the same at the same time: nobody waits for them."""
    exposed_ns, unmatched_ns = diagnosis.exposed_ns, diagnosis.unmatched_ns
    if not exposed_ns or diagnosis.predicted:
        return
    if len(diagnosis.ranks) == 1:
        yield Remark(what=Unseen.ONE_RANK, time_ns=exposed_ns, count=diagnosis.world_size)
        return
    if unmatched_ns > _NOTABLE * exposed_ns:
        yield Remark(what=Unseen.UNMATCHED, time_ns=unmatched_ns, share=unmatched_ns / exposed_ns)
    if not diagnosis.clocks.trusted:
        yield Remark(what=Unseen.CLOCKS, time_ns=max(diagnosis.clocks.residual_ns))


def _lost(rank: Digest) -> int:
    """Launches of which no work was recorded, where they are too many to be the last ones of the window."""
    facts = rank.facts
    return facts.launches_without_work if facts.launches_without_work > _NOTABLE * facts.launches else 0


def _notable(rank: Digest, time_ns: int) -> int:
    return time_ns if time_ns > _NOTABLE * rank.ledger.window_ns else 0


def _polling_ns(rank: Digest) -> int:
    return max(rank.facts.trace_ns - rank.ledger.window_ns, 0)


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
