"""RL-N02: gradients are exchanged in every backward pass, although only the last one before the optimizer needs it."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import (
    gradient_exchanges,
    like_one_of,
    matter,
    open_on_cpu,
    time_of,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.sharding import with_hooks
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics

LEAST_SHARE = 0.01  # of the step


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    gradients = [gradient_exchanges(rank) for rank in diagnosis.ranks]
    early = [exchanged_early(rank, mask) for rank, mask in zip(diagnosis.ranks, gradients, strict=True)]
    if not matter(diagnosis, early, LEAST_SHARE):
        return None
    figures = {
        "early": float(sum(mask.sum() for mask in early)),
        "all": float(sum(mask.sum() for mask in gradients)),
        "passes": float(max(_most_passes(rank, mask) for rank, mask in zip(diagnosis.ranks, early, strict=True))),
        **untold_figures(diagnosis),
    }
    claims = [time_of(rank, mask) for rank, mask in zip(diagnosis.ranks, early, strict=True)]
    return JobMatch(claims=claims, beside=with_hooks(diagnosis, open_on_cpu(diagnosis, early), early), figures=figures)


def exchanged_early(rank: Digest, gradients: Mask) -> Mask:
    """Exchanges of passes that another one follows before the optimizer, which exchanges the same again."""
    backward = rank.exchanges.backward
    before_the_last = gradients & (backward > 1)
    if not before_the_last.any():
        return before_the_last
    return before_the_last & like_one_of(rank, gradients & (backward == 1))


def _most_passes(rank: Digest, early: Mask) -> int:
    return int(rank.exchanges.backward[early].max(initial=1))


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Up to {passes} backward passes precede each optimizer step, and each of them exchanges "
        "gradients: {early_share} of these exchanges could be skipped. They are exposed for {exposed_ns} "
        "of each {step_ns} step.",
        {
            "passes": totals.figures["passes"],
            "early_share": totals.figures["early"] / max(totals.figures["all"], 1),
            "exposed_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
        },
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N02",
    claims=ClaimOrder.AVOIDABLE_EXCHANGES,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
