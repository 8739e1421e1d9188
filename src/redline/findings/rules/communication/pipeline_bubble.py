"""RL-P01: stages of a pipeline wait for each other."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import begun_in_steps, exchanges_where, matter, waiting_of
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.ledger.accounts import COMPUTE
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries
from redline.numerics import Numerics

Neighbours: TypeAlias = dict[int, set[int]]

NO_REPLAY = "more or other micro-batches are other work, and a replay only has the work that was recorded"
LEAST_SHARE = 0.03  # of the step
ENOUGH = 4  # micro-batches for each stage, as the page advises: with more, each is smaller and less efficient
UNEQUAL = 1.3  # times what the median of the other stages computes
USUAL_WAITING = 1.5  # times the bubble of the schedule
LEAST_CHAIN = 3  # ranks of which the first and the last do not meet: two meet in a ring as well


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    kinds = dict(zip((rank.origin.rank for rank in diagnosis.ranks), diagnosis.kinds, strict=True))
    pipelines = [ranks for ranks in _connected(_neighbours(diagnosis.ranks)) if _is_pipeline(ranks, kinds)]
    members = {rank for ranks in pipelines for rank in ranks}
    chosen = [
        exchanges_where(rank, lambda series: series.collective == POINT_TO_POINT) & (rank.origin.rank in members)
        for rank in diagnosis.ranks
    ]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    claims = waiting_of(diagnosis, chosen)
    figures = {
        "stages": float(max(map(len, pipelines))),
        "micro_batches": float(max(map(_received_per_step, diagnosis.ranks))),
        "waiting_share": sum(claim.length_ns for claim in claims) / max(float(diagnosis.in_steps.sum()), 1.0),
    }
    longest, of_stages = _computing([rank for rank in diagnosis.ranks if rank.origin.rank in members])
    figures |= of_stages
    if _is_as_planned(figures):
        return None
    return JobMatch(claims=claims, of_one_rank=True, figures=figures, names={"rank": longest})


def _computing(stages: Sequence[Digest]) -> tuple[str, dict[str, float]]:
    """Which stage computes longest, how long in a step, and the median of the others."""
    computing_ns = [sum(map(rank.ledger.of, COMPUTE)) / max(len(rank.ledger.start_ns), 1) for rank in stages]
    longest = int(np.argmax(computing_ns))
    others = np.delete(computing_ns, longest) if len(stages) > 1 else np.array(computing_ns)
    figures = {"longest_ns": computing_ns[longest], "median_ns": float(np.median(others))}
    return str(stages[longest].origin.rank), figures


def _is_as_planned(figures: Mapping[str, float]) -> bool:
    """Whether there are enough micro-batches, stages are alike, and they wait about as long as that makes them."""
    stages, micro_batches = figures["stages"], figures["micro_batches"]
    bubble = (stages - 1) / (micro_batches + stages - 1)
    is_even = figures["longest_ns"] < UNEQUAL * figures["median_ns"]
    return micro_batches >= ENOUGH * stages and is_even and figures["waiting_share"] <= USUAL_WAITING * bubble


def _is_pipeline(ranks: Neighbours, kinds: Mapping[int, int]) -> bool:
    """Stages do different work, or the first and the last have one neighbour only, which no rank of a ring has."""
    is_open = len(ranks) >= LEAST_CHAIN and min(map(len, ranks.values())) == 1
    return is_open or len({kinds.get(rank) for rank in ranks}) > 1


def _neighbours(ranks: Sequence[Digest]) -> Neighbours:
    """With whom each rank exchanges by sends and receives."""
    neighbours: Neighbours = {}
    for first, other in {edge for rank in ranks for edge in _edges(rank)}:
        neighbours.setdefault(first, set()).add(other)
        neighbours.setdefault(other, set()).add(first)
    return neighbours


def _connected(neighbours: Neighbours) -> list[Neighbours]:
    """Ranks that are connected by exchanges, directly or not."""
    groups: list[Neighbours] = []
    known = set[int]()
    for rank in sorted(neighbours):
        group, reached = set[int](), {rank} - known
        if not reached:
            continue
        while reached:
            group |= reached
            reached = set().union(*(neighbours[rank] for rank in reached)) - group
        groups.append({rank: neighbours[rank] for rank in group})
        known |= group
    return groups


def _edges(rank: Digest) -> set[tuple[int, ...]]:
    """Sender and receiver of all that the rank sends and receives."""
    return {series.ranks for series in rank.series if series.collective == POINT_TO_POINT}


def _received_per_step(rank: Digest) -> int:
    """How often in a step a rank receives from the one that it receives from most."""
    counts = [
        int(begun_in_steps(rank, exchanges_where(rank, partial(_is_between, edge))).sum())
        for edge in _edges(rank)
        if edge[1] == rank.origin.rank
    ]
    return round(max(counts, default=0) / max(len(rank.ledger.start_ns), 1))


def _is_between(edge: tuple[int, ...], series: CollectiveSeries) -> bool:
    return series.collective == POINT_TO_POINT and series.ranks == edge


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    stages, micro_batches = totals.figures["stages"], totals.figures["micro_batches"]
    yield Evidence(
        "Pipeline stages wait {waiting_ns} of each {step_ns} step for data from other stages.",
        {"waiting_ns": totals.alone_ns, "step_ns": totals.step_ns},
    )
    if micro_batches:
        yield Evidence(
            "With {stages} stages and {micro_batches} micro-batches per step, the bubble would be (p - 1) / "
            "(m + p - 1) = {bubble_share} if all stages took equally long.",
            {
                "stages": stages,
                "micro_batches": micro_batches,
                "bubble_share": (stages - 1) / (micro_batches + stages - 1),
            },
        )
    if totals.figures["longest_ns"] >= UNEQUAL * totals.figures["median_ns"]:
        yield Evidence(
            "The stages are unequal: that of rank {rank} computes {longest_ns} of each step, the median of the others "
            "{median_ns}.",
            {
                "rank": totals.names["rank"],
                "longest_ns": totals.figures["longest_ns"],
                "median_ns": totals.figures["median_ns"],
            },
        )


RULE = Rule(
    code="RL-P01",
    claims=ClaimOrder.PIPELINE_WAITS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    no_replay=NO_REPLAY,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
