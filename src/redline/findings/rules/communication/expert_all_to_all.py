"""RL-N17: the exchange of tokens between experts is not hidden behind computation."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import (
    begun_in_steps,
    exchanges_where,
    hidden_with,
    matter,
    time_of,
    transfer_of,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics

LEAST_SHARE = 0.01  # of the step
EXPERT = frozenset({"expert_dispatch", "expert_combine"})
BACKWARD_SHARE = 0.5  # of the all-to-alls in the forward pass: tokens go both ways again, embeddings do not


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    chosen = [expert_exchanges(rank) for rank in diagnosis.ranks]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    ranks = list(zip(diagnosis.ranks, chosen, strict=True))
    figures = {
        "exchanges": float(sum(begun_in_steps(rank, mask).sum() for rank, mask in ranks)),
        "window_exposed_ns": float(sum(time_of(rank, mask).length_ns for rank, mask in ranks)) / len(ranks),
        "window_ns": float(sum(_open_ns(rank, mask) for rank, mask in ranks)) / len(ranks),
        **untold_figures(diagnosis),
    }
    return JobMatch(claims=transfer_of(diagnosis, chosen), beside=hidden_with(diagnosis, chosen), figures=figures)


def expert_exchanges(rank: Digest) -> Mask:
    """Dispatch and combine kernels; and all-to-alls, where the backward pass has them as the forward pass does.

    Recommenders exchange embeddings by all-to-all as well: several times forward, once backward.
    """
    named = exchanges_where(rank, lambda series: series.collective in EXPERT)
    plain = exchanges_where(rank, lambda series: series.collective == "all_to_all")
    backward = rank.exchanges.backward
    forward = int((plain & (backward == FORWARD)).sum())
    is_expert = forward > 0 and int((plain & (backward > 0)).sum()) >= BACKWARD_SHARE * forward
    return named | plain if is_expert else named


def _open_ns(rank: Digest, chosen: Mask) -> int:
    """How long any of the chosen exchanges was open, hidden or not."""
    exchanges = rank.exchanges
    return int(np.sum(exchanges.end_ns[chosen] - exchanges.start_ns[chosen]))


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{exchanges:,} token exchanges between experts per step are exposed for {exposed_ns} of each {step_ns} step.",
        {"exchanges": round(totals.per_step("exchanges")), "exposed_ns": totals.alone_ns, "step_ns": totals.step_ns},
    )
    yield Evidence(
        "Over the whole window, {window_exposed_ns} of their {window_ns} per rank is exposed.",
        {name: totals.figures[name] for name in ("window_exposed_ns", "window_ns")},
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N17",
    claims=ClaimOrder.TRANSFER,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
