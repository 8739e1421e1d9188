"""RL-N21: a step exchanges many numbers one by one, and waits for each of them."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import begun_in_steps, exchanges_where, matter, time_of, untold, untold_figures
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.rules.communication.reduced_after_backward import after_backward
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries
from redline.ledger.rank.rank_analysis import LATENCY_NS
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals

LEAST_SHARE = 0.03  # of the step
MOST_BYTES = 1024  # metrics, flags and sizes of objects; activations of one token are larger
BETWEEN_NS = 1_000_000  # Python that makes a number of a tensor, and calls the next collective
MANY_BROADCASTS = 8  # to a step: DDP joins its buffers to one or two, which RL-N04 is about
LEAST_PER_STEP = 3  # a norm of gradients and a flag of a scaler are usual


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    chosen = [_small(rank) for rank in diagnosis.ranks]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    count = sum(int(mask.sum()) for mask in chosen)
    if count < LEAST_PER_STEP * diagnosis.rank_steps:
        return None
    return JobMatch(
        claims=[time_of(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)],
        beside=[_between(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)],
        figures={"exchanges": float(count), **untold_figures(diagnosis)},
        names={"collective": _most_frequent(diagnosis, chosen)},
    )


def _small(rank: Digest) -> Mask:
    """Outside of backward passes, where DDP and FSDP exchange flags of their own, and no gradients."""
    small = begun_in_steps(rank, exchanges_where(rank, _is_small))
    broadcasts = small & exchanges_where(rank, lambda series: series.collective == "broadcast")
    if broadcasts.sum() < MANY_BROADCASTS * len(rank.ledger.start_ns):
        small &= ~broadcasts
    return small & (rank.exchanges.backward <= 0) & ~after_backward(rank)


def _between(rank: Digest, chosen: Mask) -> Intervals:
    """What is lost around those that follow each other closely: their numbers are made and read one by one."""
    return _in_a_row(rank, chosen) if rank.facts.device == "cpu" else _read_after(rank, chosen)


def _in_a_row(rank: Digest, chosen: Mask) -> Intervals:
    """Those of a CPU, with the Python that is between them."""
    start_ns, end_ns = rank.exchanges.start_ns[chosen], rank.exchanges.end_ns[chosen]
    joined = Intervals.union_of(start_ns - BETWEEN_NS, end_ns.astype(np.int64))
    return Intervals(joined.start + BETWEEN_NS, joined.end)


def _read_after(rank: Digest, chosen: Mask) -> Intervals:
    """Until the next exchange begins, what the device does not compute: the number is copied and read, and the next
    work launched only then."""
    rows = np.flatnonzero(chosen[:-1])
    if not len(rows):
        return Intervals.empty()
    spent = rank.spent.unpacked()
    computed_us = spent.compute_at_start_us[rows + 1] - spent.compute_at_end_us[rows]
    end_ns, next_ns = rank.exchanges.end_ns[rows].astype(np.int64), rank.exchanges.start_ns[rows + 1]
    return Intervals.union_of(end_ns, end_ns + np.clip(next_ns - end_ns - 1000 * computed_us, 0, LATENCY_NS))


def _is_small(series: CollectiveSeries) -> bool:
    """What has no size is a single number."""
    is_number = series.in_elements < 0 and series.out_elements < 0 and bool(series.dtype)
    return series.collective not in (POINT_TO_POINT, "unknown") and (
        is_number or 0 < series.payload_bytes <= MOST_BYTES
    )


def _most_frequent(diagnosis: Diagnosis, chosen: list[Mask]) -> str:
    times: dict[str, int] = {}
    for rank, mask in zip(diagnosis.ranks, chosen, strict=True):
        for number in rank.exchanges.series[mask].tolist():
            collective = rank.series[number].collective
            times[collective] = times.get(collective, 0) + 1
    return max(times, key=lambda name: times[name])


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{exchanges:,} collectives per step, mostly {collective}, carry at most 1 KiB each, outside of the backward "
        "pass. They are exposed for {exposed_ns} of each {step_ns} step.",
        {
            "exchanges": round(totals.per_step("exchanges")),
            "collective": totals.names["collective"],
            "exposed_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
        },
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N21",
    claims=ClaimOrder.AVOIDABLE_TRANSFER,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
)
