"""RL-N24: the all-to-alls of sharded embeddings are not hidden behind computation."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import (
    begun_in_steps,
    exchanges_where,
    hidden_with,
    hideable,
    in_steps_ns,
    matter,
    transfer_of,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.rules.communication.expert_all_to_all import expert_exchanges
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics

LEAST_SHARE = 0.05  # of the step


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    chosen = [_exchanges(rank) for rank in diagnosis.ranks]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    transfers = transfer_of(diagnosis, chosen)
    figures = {
        "exchanges": float(
            sum(begun_in_steps(rank, mask).sum() for rank, mask in zip(diagnosis.ranks, chosen, strict=True))
        ),
        "exposed_ns": in_steps_ns(diagnosis, transfers),
        **untold_figures(diagnosis),
    }
    claims = [hideable(rank, time) for rank, time in zip(diagnosis.ranks, transfers, strict=True)]
    return JobMatch(claims=claims, beside=hidden_with(diagnosis, chosen), figures=figures)


def _exchanges(rank: Digest) -> Mask:
    """All-to-alls of a job that trains and has no experts; on a CPU the same cores compute, so none can be hidden."""
    plain = exchanges_where(rank, lambda series: series.collective == "all_to_all") & ~expert_exchanges(rank)
    backward = rank.exchanges.backward
    trains = bool((plain & (backward == FORWARD)).any() and (backward > 0).any())
    return plain & (trains and rank.facts.device != "cpu")


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{exchanges:,} all-to-alls per step, most of them in the forward pass as of sharded embeddings, are exposed "
        "for {exposed_ns} of each {step_ns} step: nothing is computed meanwhile.",
        {
            "exchanges": round(totals.per_step("exchanges")),
            "exposed_ns": totals.per_step("exposed_ns"),
            "step_ns": totals.step_ns,
        },
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N24",
    claims=ClaimOrder.TRANSFER,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
)
