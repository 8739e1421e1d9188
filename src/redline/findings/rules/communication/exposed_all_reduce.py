"""RL-N01: the all-reduces of DDP are not hidden behind the backward pass."""

from collections.abc import Iterator, Sequence

import numpy as np

from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.activity import Mask
from redline.analysis.rank.digest import Digest
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import (
    begun_in_steps,
    exchanges_where,
    exposed_in_steps_ns,
    gradient_exchanges,
    matter,
    transfer_of,
    unknown_exchanges,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.sharding import parameter_gathers

LEAST_SHARE = 0.05  # of the step
MOSTLY_LAST = 0.5  # of the exposed time
MANY_SMALL = 32  # to a step, none larger than the first bucket of DDP: its buckets are fewer, or larger
MANY_UNKNOWN = 256  # to a step, of unknown size: as buckets of DDP these would be 6 GiB of gradients
FIRST_BUCKET_BYTES = 1 << 20


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """Exchanges of unknown kind count with those that are known: else the bound would be too low."""
    chosen = [buckets(rank) for rank in diagnosis.ranks]
    unknown = [unknown_exchanges(rank) & mask.any() for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    claimed = [known | other for known, other in zip(chosen, unknown, strict=True)]
    if not matter(diagnosis, claimed, LEAST_SHARE):
        return None
    sizes, claims = _sizes(diagnosis.ranks, chosen), transfer_of(diagnosis, claimed)
    last = [_last_of_pass(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    figures = {
        "buckets": float(sum(begun_in_steps(*of_rank).sum() for of_rank in zip(diagnosis.ranks, chosen, strict=True))),
        "smallest_bytes": float(min(sizes, default=0)),
        "largest_bytes": float(max(sizes, default=0)),
        "exposed_ns": float(sum(time.length_ns for time in claims)),
        "last_ns": float(sum(time.length_ns for time in transfer_of(diagnosis, last))),
        "unknown_ns": exposed_in_steps_ns(diagnosis, unknown),
        **untold_figures(diagnosis),
    }
    return JobMatch(claims=claims, figures=figures)


def buckets(rank: Digest) -> Mask:
    """All-reduces of gradients; where these are scattered or parameters gathered, it is another scheme than DDP's.

    None on a CPU: there the cores that compute also move the bytes, so hiding one behind the other gains nothing.
    """
    chosen = gradient_exchanges(rank)
    if rank.facts.device == "cpu":
        return np.zeros_like(chosen)
    reduced = exchanges_where(rank, lambda series: series.collective == "all_reduce")
    is_ddp = reduced[chosen].all() and not parameter_gathers(rank).any()
    return chosen if is_ddp else np.zeros_like(chosen)


def _sizes(ranks: Sequence[Digest], chosen: Sequence[Mask]) -> list[int]:
    """Sizes of all kinds of buckets, as far as they are known."""
    used = {
        rank.series[number].payload_bytes
        for rank, mask in zip(ranks, chosen, strict=True)
        for number in np.unique(rank.exchanges.series[mask]).tolist()
    }
    return sorted(used - {0})


def _last_of_pass(rank: Digest, chosen: Mask) -> Mask:
    """Of the chosen exchanges the last in each backward pass."""
    rows = np.flatnonzero(chosen)
    step = np.searchsorted(rank.ledger.start_ns, rank.exchanges.start_ns[rows], side="right")
    passed = np.stack([step, rank.exchanges.backward[rows]])
    last = np.zeros_like(chosen)
    last[rows[np.append((np.diff(passed) != 0).any(axis=0), True)[: len(rows)]]] = True
    return last


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Gradient all-reduces, {buckets:,} per step, are exposed for {exposed_ns} of each {step_ns} "
        "step: nothing is computed meanwhile.",
        {"buckets": round(totals.per_step("buckets")), "exposed_ns": totals.alone_ns, "step_ns": totals.step_ns},
    )
    if totals.figures["largest_bytes"]:
        yield Evidence(
            "The smallest is {smallest_bytes}, the largest {largest_bytes}.",
            {name: totals.figures[name] for name in ("smallest_bytes", "largest_bytes")},
        )
    last_share = totals.figures["last_ns"] / max(totals.figures["exposed_ns"], 1)
    if last_share >= MOSTLY_LAST:
        yield Evidence(
            "{last_share} of that is in the last all-reduce of a backward pass, when no compute is left to hide it.",
            {"last_share": last_share},
        )
    yield from untold(totals)


def fix(totals: MatchTotals) -> Evidence | None:
    """The size of buckets changes nothing for tensors that are sent one by one."""
    largest_bytes = totals.figures["largest_bytes"]
    many = MANY_SMALL if largest_bytes else MANY_UNKNOWN
    if totals.per_step("buckets") < many or largest_bytes > FIRST_BUCKET_BYTES:
        return None
    return Evidence(
        "Send {buckets:,} tensors as a few: wrap the model in DistributedDataParallel, or flatten all gradients into "
        "one tensor before dist.all_reduce.",
        {"buckets": round(totals.per_step("buckets"))},
    )


RULE = Rule(
    code="RL-N01",
    claims=ClaimOrder.GRADIENT_TRANSFER,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    fix=fix,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
