"""RL-N06: the forward pass waits for parameters to be gathered."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import untold
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.sharding import exposed_gathers, parameter_gathers
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics

LEAST_SHARE = 0.03  # of the step
SMALL_BYTES = 1 << 19  # over loopback a gather takes longer to begin than to carry as much


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """On a CPU gathers run beside nothing, so that all there is to gain is their number; larger units have fewer
    reductions too."""
    gathers = [parameter_gathers(rank) for rank in diagnosis.ranks]
    chosen = [mask & (rank.exchanges.backward == FORWARD) for rank, mask in zip(diagnosis.ranks, gathers, strict=True)]
    pairs = zip(diagnosis.ranks, chosen, strict=True)
    if any(rank.facts.device == "cpu" and not _are_small(rank, mask) for rank, mask in pairs):
        return None
    fewer = [mask | (rank.facts.device == "cpu") for rank, mask in zip(diagnosis.ranks, gathers, strict=True)]
    return exposed_gathers(diagnosis, chosen, LEAST_SHARE, too=fewer)


def _are_small(rank: Digest, gathers: Mask) -> bool:
    sizes = np.array([series.payload_bytes for series in rank.series])[rank.exchanges.series[gathers]]
    return bool(len(sizes)) and float(np.median(sizes)) < SMALL_BYTES


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{gathers:,} parameter all-gathers in the forward pass of a step are exposed for {exposed_ns} of "
        "{step_ns}: they start too late to be hidden.",
        {"gathers": round(totals.per_step("gathers")), "exposed_ns": totals.alone_ns, "step_ns": totals.step_ns},
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N06",
    claims=ClaimOrder.TRANSFER,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
