"""RL-N23: tensor parallelism gathers the whole output of each layer, and the next layer splits it again."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import begun_in_steps, exchanges_where, matter, time_of, untold, untold_figures
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.sharding import groups_of, parameter_gathers
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.numerics import Numerics

LEAST_SHARE = 0.03  # of the step
LEAST_PER_STEP = 4  # one gathers the logits at the end, two or three numbers of a metric
MUCH_SHARE = 0.1  # of the step: then a single one matters too
LEAST_BYTES = 16 * 1024  # of each: metrics are smaller


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    chosen = [_gathers(rank) for rank in diagnosis.ranks]
    count = sum(int(mask.sum()) for mask in chosen)
    few = count < LEAST_PER_STEP * diagnosis.rank_steps
    if not matter(diagnosis, chosen, MUCH_SHARE if few else LEAST_SHARE):
        return None
    ranks = list(zip(diagnosis.ranks, chosen, strict=True))
    return JobMatch(
        claims=[time_of(rank, mask) for rank, mask in ranks],
        beside=[time_of(rank, _reduced_too(rank, mask)) for rank, mask in ranks],
        figures={"gathers": float(count), **untold_figures(diagnosis)},
    )


def _gathers(rank: Digest) -> Mask:
    """All-gathers of activations in forward passes; sequence parallelism, which needs them, scatters there too."""
    gathers = begun_in_steps(rank, exchanges_where(rank, lambda series: series.collective == "all_gather"))
    gathers &= (rank.exchanges.backward == FORWARD) & ~parameter_gathers(rank)
    gathers &= exchanges_where(rank, lambda series: series.payload_bytes >= LEAST_BYTES)
    scatters = exchanges_where(rank, lambda series: series.collective == "reduce_scatter")
    scattering = groups_of(rank, scatters)
    return gathers & exchanges_where(rank, lambda series: series.group not in scattering)


def _reduced_too(rank: Digest, gathers: Mask) -> Mask:
    """All-reduces of the same ranks: of gradients of the inputs of each layer, of which the pair needs half."""
    groups = groups_of(rank, gathers)
    return exchanges_where(rank, lambda series: series.collective == "all_reduce" and series.group in groups)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{gathers:,} all-gathers of activations in the forward pass of a step are exposed for {exposed_ns} of "
        "{step_ns}, in a group of ranks that scatters none of them again.",
        {"gathers": round(totals.per_step("gathers")), "exposed_ns": totals.alone_ns, "step_ns": totals.step_ns},
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N23",
    claims=ClaimOrder.AVOIDABLE_TRANSFER,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
)
