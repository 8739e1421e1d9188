"""Ranks that wait for others: late ranks, stages of a pipeline, ranks without a core."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.exposed import begun_in_steps, exchanges_where, held_up_until, last_part, matter, waiting_of
from redline.findings.rule import ClaimOrder, JobMatch, MatchTotals, Value, adds, alone, rule, says, total, value
from redline.findings.rules.host_cores import starved_machine
from redline.ledger.accounts import COMPUTE
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.lateness import BEFORE, Lateness, LateRank
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries
from redline.ledger.rank.rank_match import RankMatch
from redline.numerics import Numerics
from redline.replay.changes import Change, Target, TimeChange

LATE_RANKS_SHARE = 0.03  # of the step
TOLD_SHARE = 0.05  # of the waiting
ALSO_SHARE = 0.2  # of the waiting: a second rank that causes as much is named too


def _what_if_late_ranks(diagnosis: Diagnosis) -> tuple[Change, ...]:
    """The late ranks are as fast as the others; where they change, every rank is as fast as the median."""
    lateness = diagnosis.lateness
    late = () if lateness is None or lateness.pattern == "rotating" else lateness.ranks[:1]
    also = None if lateness is None or not late else _also(lateness)
    ranks = tuple(sorted(rank.rank for rank in (*late, *(() if also is None else (also,)))))
    return (TimeChange(target=Target.RANK, ranks=ranks, factor=1.0, like_others=True),)


_CAUSES = {
    BEFORE: Evidence(
        "Rank {rank} was already up to {cause_ns} late when the window began: the cause is not in the traces.",
        bearing=Bearing.WEAKENS,
    ),
    "compute": Evidence("Before that rank {rank} computes {cause_ns} longer than the median rank."),
    "communication": Evidence(
        "Before that rank {rank} communicates and copies {cause_ns} longer than the median rank."
    ),
    "input": Evidence("Before that rank {rank} waits {cause_ns} longer for its data loader than the median rank."),
    "host": Evidence(
        "Before that the device of rank {rank} waits {cause_ns} longer for the host than that of the median rank."
    ),
}
_NO_CAUSE = Evidence("The traces do not show what takes rank {rank} longer than the median rank.")
_PATTERNS = {
    "fixed": Evidence("Most of that waiting is for the same rank."),
    "rotating": Evidence("The late rank changes: look for noise or uneven work rather than for a slow machine."),
    "first step only": Evidence(
        "Rank {rank} is late in the first step only, which has {first_step_share} of that waiting: the ranks may "
        "have started at different times.",
        bearing=Bearing.VOIDS,
    ),
}
_NO_PATTERN = Evidence(
    "The traces hold only one step, so whether the same rank is late in every step is unknown.", bearing=Bearing.VOIDS
)


def _cause_and_pattern(totals: MatchTotals) -> Iterator[Evidence]:
    rank, figures = totals.names["rank"], totals.figures
    cause, pattern = _CAUSES.get(totals.names["cause"], _NO_CAUSE), _PATTERNS.get(totals.names["pattern"], _NO_PATTERN)
    yield replace(cause, values={"rank": rank, "cause_ns": figures["cause_ns"]})
    yield replace(pattern, values={"rank": rank, "first_step_share": figures["first_step_share"]})


@rule(
    "RL-N13",
    ClaimOrder.LATE_RANKS,
    Numerics.BITWISE,
    Grade.DOCUMENTED,
    what_if_job=_what_if_late_ranks,
    least_share=LATE_RANKS_SHARE,
    applies_to_plans=True,
)
@says(
    "Ranks wait {waiting_ns} of each {step_ns} step for late ranks. Rank {rank} arrives last at "
    "{last} of {operations} collectives, {late_ns} late on average, and causes {caused_share} of the "
    "waiting there.",
    order="waiting_ns step_ns rank caused_share last operations late_ns",
    waiting_ns=alone,
    last=total("last"),
    operations=total("operations"),
    late_ns=total("late_ns"),
    caused_share=total("caused_share"),
)
@adds(_cause_and_pattern)
@says("Rank {also} causes {also_share} of that waiting.", when="also", also_share=total("also_share"))
@says(
    "{speed_share} of all waiting is left out: there the late rank did the same work more slowly, as on a core "
    "that others use too.",
    when=lambda totals: totals.figures["speed_share"] >= TOLD_SHARE,
    speed_share=total("speed_share"),
)
@says(
    "The ranks do {kinds} different kinds of work, so part of this follows from the parallel layout.",
    when=lambda totals: totals.figures["kinds"] > 1,
    bearing=Bearing.WEAKENS,
    kinds=total("kinds"),
)
def late_ranks(diagnosis: Diagnosis) -> JobMatch | None:
    """Ranks wait in collectives for others that come late.

    All waiting but that for sends and receives, which stages of a pipeline have by their nature; and but that for
    a slower core, which no change of the job makes faster.
    """
    lateness = diagnosis.lateness
    if lateness is None:
        return None
    of_the_job = 1 - lateness.speed_share
    waited_ns = of_the_job * sum(time.length_ns for time in diagnosis.waiting)
    if waited_ns < LATE_RANKS_SHARE * float(diagnosis.in_steps.sum()):
        return None
    chosen = [exchanges_where(rank, lambda series: series.collective != POINT_TO_POINT) for rank in diagnosis.ranks]
    claims = [last_part(waiting, of_the_job) for waiting in waiting_of(diagnosis, chosen)]
    return JobMatch(
        claims,
        [
            last_part(held_up_until(rank.exposed, waiting), of_the_job)
            for rank, waiting in zip(diagnosis.ranks, claims, strict=True)
        ],
        **_figures(lateness),
        kinds=len(set(diagnosis.kinds)),
        **_names(lateness),
    )


def _figures(lateness: Lateness) -> dict[str, float]:
    worst, also = lateness.ranks[0], _also(lateness)
    return {
        "last": float(worst.last),
        "operations": float(lateness.operations),
        "caused_share": worst.share,
        "cause_ns": float(worst.cause_ns),
        "late_ns": float(worst.late_ns),
        "first_step_share": lateness.first_step_share,
        "speed_share": lateness.speed_share,
        "also_share": also.share if also is not None else 0.0,
    }


def _names(lateness: Lateness) -> dict[str, str]:
    worst, also = lateness.ranks[0], _also(lateness)
    return {
        "rank": str(worst.rank),
        "cause": worst.cause,
        "pattern": lateness.pattern,
        "also": str(also.rank) if also is not None else "",
    }


def _also(lateness: Lateness) -> LateRank | None:
    return next((rank for rank in lateness.ranks[1:] if rank.share >= ALSO_SHARE), None)


Neighbours: TypeAlias = dict[int, set[int]]
NO_REPLAY = "more or other micro-batches are other work, and a replay only has the work that was recorded"
PIPELINE_BUBBLE_SHARE = 0.03  # of the step
ENOUGH = 4  # micro-batches for each stage, as the page advises: with more, each is smaller and less efficient
UNEQUAL = 1.3  # times what the median of the other stages computes
USUAL_WAITING = 1.5  # times the bubble of the schedule
LEAST_CHAIN = 3  # ranks of which the first and the last do not meet: two meet in a ring as well


@rule(
    "RL-P01",
    ClaimOrder.PIPELINE_WAITS,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    no_replay=NO_REPLAY,
    least_share=PIPELINE_BUBBLE_SHARE,
    applies_to_plans=True,
)
@says("Pipeline stages wait {waiting_ns} of each {step_ns} step for data from other stages.", waiting_ns=alone)
@says(
    "With {stages} stages and {micro_batches} micro-batches per step, the bubble would be (p - 1) / "
    "(m + p - 1) = {bubble_share} if all stages took equally long.",
    when="micro_batches",
    stages=total("stages"),
    micro_batches=total("micro_batches"),
    bubble_share=value(lambda totals: _bubble(totals.figures)),
)
@says(
    "The stages are unequal: that of rank {rank} computes {longest_ns} of each step, the median of the others "
    "{median_ns}.",
    when=lambda totals: totals.figures["longest_ns"] >= UNEQUAL * totals.figures["median_ns"],
    longest_ns=total("longest_ns"),
    median_ns=total("median_ns"),
)
def pipeline_bubble(diagnosis: Diagnosis) -> JobMatch | None:
    """Stages of a pipeline wait for each other."""
    kinds = dict(zip((rank.origin.rank for rank in diagnosis.ranks), diagnosis.kinds, strict=True))
    pipelines = [ranks for ranks in _connected(_neighbours(diagnosis.ranks)) if _is_pipeline(ranks, kinds)]
    members = {rank for ranks in pipelines for rank in ranks}
    chosen = [
        exchanges_where(rank, lambda series: series.collective == POINT_TO_POINT) & (rank.origin.rank in members)
        for rank in diagnosis.ranks
    ]
    if not matter(diagnosis, chosen, PIPELINE_BUBBLE_SHARE):
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
    return JobMatch(claims, **figures, rank=longest)


def _computing(stages: Sequence[Digest]) -> tuple[str, dict[str, float]]:
    """Which stage computes longest, how long in a step, and the median of the others."""
    computing_ns = [sum(map(rank.ledger.of, COMPUTE)) / max(len(rank.ledger.start_ns), 1) for rank in stages]
    longest = int(np.argmax(computing_ns))
    others = np.delete(computing_ns, longest) if len(stages) > 1 else np.array(computing_ns)
    figures = {"longest_ns": computing_ns[longest], "median_ns": float(np.median(others))}
    return str(stages[longest].origin.rank), figures


def _is_as_planned(figures: Mapping[str, float]) -> bool:
    """There are enough micro-batches, stages are alike, and they wait about as long as that makes them."""
    is_even = figures["longest_ns"] < UNEQUAL * figures["median_ns"]
    is_enough = figures["micro_batches"] >= ENOUGH * figures["stages"]
    return is_enough and is_even and figures["waiting_share"] <= USUAL_WAITING * _bubble(figures)


def _bubble(figures: Mapping[str, float]) -> float:
    """The share that stages wait by their schedule, if all take equally long."""
    stages, micro_batches = figures["stages"], figures["micro_batches"]
    return (stages - 1) / (micro_batches + stages - 1)


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


@rule("RL-N30", ClaimOrder.STARVED, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.01)
@says(
    "{exposed_ns} of exposed communication in each {step_ns} step follows from {code}: ranks wait for others that "
    "have no core, and threads that carry the data have none either.",
    exposed_ns=alone,
    code=Value(lambda _: starved_machine.code),
)
def starved_ranks(diagnosis: Diagnosis) -> JobMatch | None:
    """Ranks wait in collectives for ranks that have no core, and so does the data that they exchange.

    Of the waiting no more than the most starved rank lost, of the transfer as large a share as the rank lost.
    """
    starved = [_starved(rank.matches) for rank in diagnosis.ranks]
    most_ns = max((starved_ns for starved_ns, _ in starved), default=0.0)
    if most_ns <= 0:
        return None
    claims = []
    for rank, (_, share), waiting in zip(diagnosis.ranks, starved, diagnosis.waiting, strict=True):
        waited = last_part(waiting, _within_1(most_ns / max(waiting.length_ns, 1)))
        claims.append(waited | last_part(rank.exposed - waiting, _within_1(share)))
    return JobMatch(claims)


def _starved(matches: Iterable[RankMatch]) -> tuple[float, float]:
    """How long a rank waited for a core in all its steps, and which share of them that is."""
    for rank_match in matches:
        if rank_match.code == starved_machine.code:
            return rank_match.figures["starved_ns"], rank_match.figures["starved_share"]
    return 0.0, 0.0


def _within_1(share: float) -> float:
    """Digests come from outside."""
    return min(max(share, 0.0), 1.0)
