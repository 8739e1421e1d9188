"""RL-P01: stages of a pipeline wait for each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.exchanges import POINT_TO_POINT, Series
from redline.findings.exposed import begun_in_steps, exchanges_where, waiting_of
from redline.findings.rule import Evidence, Grade, JobLook, Numerics, Rule, Seen

_LEAST_CHAIN = 3  # ranks of which the first and the last do not meet: two meet in a ring as well


@dataclass(frozen=True)
class _Pipeline:
    """Ranks that send to each other."""

    ranks: frozenset[int]
    edges: frozenset[tuple[int, ...]]

    @property
    def is_open(self) -> bool:
        """Whether some rank has one neighbour only, as the first and the last stage have and no rank of a ring."""
        neighbours = {rank: {a + b - rank for a, b in self.edges if rank in (a, b)} for rank in self.ranks}
        return len(self.ranks) >= _LEAST_CHAIN and min(map(len, neighbours.values())) == 1


def look_at_job(diagnosis: Diagnosis) -> JobLook | None:
    kinds = dict(zip((rank.origin.rank for rank in diagnosis.ranks), diagnosis.kinds, strict=True))
    pipelines = [
        one for one in _pipelines(diagnosis.ranks) if one.is_open or len({kinds.get(rank) for rank in one.ranks}) > 1
    ]
    if not pipelines:
        return None
    members = frozenset().union(*(one.ranks for one in pipelines))
    chosen = [
        exchanges_where(rank, lambda series: series.collective == POINT_TO_POINT) & (rank.origin.rank in members)
        for rank in diagnosis.ranks
    ]
    return JobLook(
        claims=waiting_of(diagnosis, chosen),
        figures={
            "stages": float(max(len(one.ranks) for one in pipelines)),
            "micro_batches": float(max(_received_per_step(rank) for rank in diagnosis.ranks)),
        },
    )


def _pipelines(ranks: Sequence[Digest]) -> list[_Pipeline]:
    """Ranks that are connected by sends and receives."""
    edges = {edge for rank in ranks for edge in _edges(rank)}
    groups: list[set[int]] = []
    for edge in sorted(edges):
        meeting = [group for group in groups if group & set(edge)]
        groups = [group for group in groups if group not in meeting] + [set(edge).union(*meeting)]
    return [_Pipeline(frozenset(group), frozenset(edge for edge in edges if edge[0] in group)) for group in groups]


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


def _is_between(edge: tuple[int, ...], series: Series) -> bool:
    return series.collective == POINT_TO_POINT and series.ranks == edge


def explain(seen: Seen) -> Iterator[Evidence]:
    stages, micro_batches = seen.figures["stages"], seen.figures["micro_batches"]
    yield Evidence(
        "Stages of the pipeline wait {waiting_ns} of each step of {step_ns} for what others send.",
        {"waiting_ns": seen.alone_ns, "step_ns": seen.step_ns},
    )
    if micro_batches:
        yield Evidence(
            "With {stages} stages and {micro_batches} micro-batches a step, (p - 1) / (m + p - 1) = {bubble_share} of "
            "it would be idle if all stages took as long.",
            {
                "stages": stages,
                "micro_batches": micro_batches,
                "bubble_share": (stages - 1) / (micro_batches + stages - 1),
            },
        )


RULE = Rule(
    code="RL-P01",
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    look_at_job=look_at_job,
    explain=explain,
    least_share=0.03,
)
