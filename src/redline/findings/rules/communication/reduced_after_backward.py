"""RL-N22: gradients are all-reduced after the backward pass, when no compute is left to hide it."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import (
    begun_in_steps,
    exchanges_where,
    hideable,
    matter,
    time_of,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import AFTER_BACKWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

LEAST_SHARE = 0.03  # of the step
LEAST_BYTES = 64 * 1024  # per step: norms and flags are smaller, gradients of a model larger
MOSTLY = 0.5  # of the bytes that all-reduces of a step carry: the rest of the gradients may go another way


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    chosen = [after_backward(rank) for rank in diagnosis.ranks]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    ranks = list(zip(diagnosis.ranks, chosen, strict=True))
    figures = {
        "exchanges": float(sum(begun_in_steps(rank, mask).sum() for rank, mask in ranks)),
        "bytes": float(sum(_payload_bytes(rank)[begun_in_steps(rank, mask)].sum() for rank, mask in ranks)),
        **untold_figures(diagnosis),
    }
    return JobMatch(claims=[_gained(rank, mask) for rank, mask in ranks], figures=figures)


def _gained(rank: Digest, late: Mask) -> Intervals:
    """What a GPU can hide; on a CPU all, as DDP exchanges fewer and larger tensors."""
    exposed = time_of(rank, late)
    return exposed if rank.facts.device == "cpu" else hideable(rank, exposed)


def after_backward(rank: Digest) -> Mask:
    """All-reduces of gradients that the script itself starts, once the backward pass is over."""
    reduced = begun_in_steps(rank, exchanges_where(rank, lambda series: series.collective == "all_reduce"))
    late: Mask = reduced & (rank.exchanges.backward == AFTER_BACKWARD)
    if not late.any():
        return late
    payload_bytes = _payload_bytes(rank)
    late_bytes = int(payload_bytes[late].sum())
    steps = max(len(rank.ledger.start_ns), 1)
    carries_gradients = late_bytes >= max(LEAST_BYTES * steps, MOSTLY * int(payload_bytes[reduced].sum()))
    return late if carries_gradients else np.zeros_like(late)


def _payload_bytes(rank: Digest) -> I64:
    """Of each exchange."""
    sizes = np.array([series.payload_bytes for series in rank.series] or [0], np.int64)
    payload: I64 = sizes[rank.exchanges.series]
    return payload


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{exchanges:,} all-reduces per step, {payload_bytes} together, begin after the backward pass and before the "
        "optimizer. They are exposed for {exposed_ns} of each {step_ns} step: nothing is computed meanwhile.",
        {
            "exchanges": round(totals.per_step("exchanges")),
            "payload_bytes": round(totals.per_step("bytes")),
            "exposed_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
        },
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N22",
    claims=ClaimOrder.LATE_GRADIENTS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
)
