"""RL-N01: the all-reduces of DDP are not hidden behind the backward pass."""

from collections.abc import Iterator, Sequence

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import (
    FP32,
    begun_in_steps,
    exchanges_where,
    gradient_exchanges,
    hideable,
    in_steps_ns,
    last_part,
    matter,
    open_on_cpu,
    time_of,
    transfer_of,
    unknown_exchanges,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.rules.communication.fp32_gradients import computes_narrow
from redline.findings.rules.communication.gradient_accumulation import exchanged_early
from redline.findings.sharding import parameter_gathers
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_phases import PHASES, Phase
from redline.ledger.rank.phases import KINDS, PhaseKind
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals

LEAST_SHARE = 0.05  # of the step
MOSTLY_LAST = 0.5  # of the exposed time
MANY_SMALL = 32  # to a step, none larger than the first bucket of DDP: its buckets are fewer, or larger
MANY_UNKNOWN = 256  # to a step, of unknown size: as buckets of DDP these would be 6 GiB of gradients
MANY_ON_CPU = 8  # to a step
FIRST_BUCKET_BYTES = 1 << 20  # that DDP sends: smaller ones cost latency more than bandwidth


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """Exchanges of unknown kind count with those that are known: else the bound would be too low."""
    chosen = [buckets(rank) for rank in diagnosis.ranks]
    unknown = [unknown_exchanges(rank) & mask.any() for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    claimed = [known | other for known, other in zip(chosen, unknown, strict=True)]
    if not matter(diagnosis, claimed, LEAST_SHARE):
        return None
    sizes, transfers = _sizes(diagnosis.ranks, chosen), transfer_of(diagnosis, claimed)
    small = bool(sizes) and sum(sizes) < FIRST_BUCKET_BYTES * len(sizes)
    count = sum(int(begun_in_steps(*of_rank).sum()) for of_rank in zip(diagnosis.ranks, chosen, strict=True))
    if _on_cpu(diagnosis) and not (small and count >= MANY_ON_CPU * diagnosis.rank_steps):
        return None
    claims, beside = _gained(diagnosis, claimed, transfers, small=small)
    if not small and _sends_too_much(diagnosis, chosen):
        claims = [_behind_backward(*of_rank) for of_rank in zip(diagnosis.ranks, chosen, claims, strict=True)]
    last = [_last_of_pass(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)]
    figures = {
        "buckets": float(count),
        "smallest_bytes": float(min(sizes, default=0)),
        "largest_bytes": float(max(sizes, default=0)),
        "exposed_ns": float(sum(time.length_ns for time in transfers)),
        "in_steps_ns": in_steps_ns(diagnosis, transfers),
        "hidden_ns": in_steps_ns(diagnosis, claims),
        "last_ns": float(sum(time.length_ns for time in transfer_of(diagnosis, last))),
        "unknown_ns": in_steps_ns(diagnosis, transfer_of(diagnosis, unknown)),
        **untold_figures(diagnosis),
    }
    return JobMatch(claims=claims, beside=beside, figures=figures)


def _on_cpu(diagnosis: Diagnosis) -> bool:
    """There the cores that compute also move the bytes: hiding one behind the other gains nothing, fewer calls do."""
    return all(rank.facts.device == "cpu" for rank in diagnosis.ranks)


def _gained(
    diagnosis: Diagnosis, chosen: Sequence[Mask], transfers: Sequence[Intervals], *, small: bool
) -> tuple[list[Intervals], list[Intervals]]:
    """What hiding can gain; of small buckets all, as larger ones save what each exchange costs by itself."""
    if not small:
        return [hideable(rank, time) for rank, time in zip(diagnosis.ranks, transfers, strict=True)], []
    ranks = zip(diagnosis.ranks, chosen, open_on_cpu(diagnosis, chosen), strict=True)
    return list(transfers), [time_of(rank, mask) | open_time for rank, mask, open_time in ranks]


def _sends_too_much(diagnosis: Diagnosis, chosen: Sequence[Mask]) -> bool:
    """Whether gradients are sent in fp32 though the job computes in less: RL-N05 is the cause if time runs out."""
    are_wide = [
        bool(exchanges_where(rank, lambda series: series.dtype in FP32)[mask].all())
        for rank, mask in zip(diagnosis.ranks, chosen, strict=True)
    ]
    return all(are_wide) and computes_narrow(diagnosis)


def _behind_backward(rank: Digest, chosen: Mask, time: Intervals) -> Intervals:
    """Of this exposed time, what the backward pass could still hide: what it computes while nothing is sent.

    Where buckets follow each other from the first to the last, no other order hides more of them.
    """
    if not rank.phases or not time.length_ns:
        return time
    sums = np.array(rank.phases).reshape(len(PHASES), len(KINDS))
    spare_ns = int(sums[PHASES.index(Phase.BACKWARD), KINDS.index(PhaseKind.DEVICE)])
    spare_ns -= int(rank.exchanges.hidden_ns[begun_in_steps(rank, chosen)].sum())
    return last_part(time, min(max(spare_ns, 0) / time.length_ns, 1.0))


def buckets(rank: Digest) -> Mask:
    """All-reduces of gradients; where these are scattered or parameters gathered, it is another scheme than DDP's.

    Those of passes before the last one need not be hidden, but left out (RL-N02).
    """
    chosen = gradient_exchanges(rank)
    reduced = exchanges_where(rank, lambda series: series.collective == "all_reduce")
    is_ddp = reduced[chosen].all() and not parameter_gathers(rank).any()
    return chosen & ~exchanged_early(rank, chosen) if is_ddp else np.zeros_like(chosen)


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
        {
            "buckets": round(totals.per_step("buckets")),
            "exposed_ns": totals.per_step("in_steps_ns"),
            "step_ns": totals.step_ns,
        },
    )
    if totals.figures["largest_bytes"]:
        yield Evidence(
            "The smallest is {smallest_bytes}, the largest {largest_bytes}.",
            {name: totals.figures[name] for name in ("smallest_bytes", "largest_bytes")},
        )
    left_ns = totals.per_step("in_steps_ns") - totals.per_step("hidden_ns")
    if left_ns > LEAST_SHARE * totals.step_ns:
        yield Evidence(
            "No more can be hidden than is computed in a step: {left_ns} of that would remain.",
            {"left_ns": left_ns},
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
