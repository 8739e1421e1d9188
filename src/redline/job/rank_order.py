"""Which file is which rank of a job, in order of rank: ranks that two files claim, and ranks that none is of."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise

from redline.timeline.timeline import NONE
from redline.trace.rank_claim import FROM_ORDER, LARGEST_JOB, STATED
from redline.values import dataclass

_APART_NS = 3_600_000_000_000  # ranks of a job are recorded together, however wrong their clocks
_UNIX_NS = 1_400_000_000_000_000_000  # less counts from when a machine was started
MOST_MISSING = 100_000  # that are listed


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The place in the job that the trace of one rank claims."""

    rank: int  # -1: nothing
    origin: str  # how the rank is known
    world_size: int


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """One rank of a job: what stood at `index` before all were put in order."""

    rank: int
    origin: str
    index: int


@dataclass(frozen=True, kw_only=True)
class RankOrder:
    """The ranks of a job in order, and what does not add up."""

    places: tuple[RankPlace, ...]
    world_size: int
    doubles: tuple[int, ...]  # ranks that more than one trace claims
    missing: tuple[int, ...]  # ranks of the world that no trace is of


def jobs_among(start_ns: Sequence[int]) -> int:
    """The least number of jobs that the traces are of: those recorded hours apart are not of one."""
    ordered = sorted(start for start in start_ns if start > _UNIX_NS)
    return 1 + sum(later - earlier > _APART_NS for earlier, later in pairwise(ordered))


def rank_order(claims: Sequence[Claim]) -> RankOrder:
    """The ranks of a job from what each trace claims. Of claims that differ, the order does not matter.

    What is stated is kept. Of those that infer the same rank the first keeps it, unless it is stated elsewhere. All
    others, in the order given, get the numbers that are free then.
    """
    world_size = max(claim.world_size for claim in claims)
    taken = {claim.rank for claim in claims if claim.rank != NONE and claim.origin in STATED}
    kept: list[bool] = []
    for claim in claims:
        is_stated = claim.rank != NONE and claim.origin in STATED
        kept.append(is_stated or (claim.rank != NONE and claim.rank not in taken))
        if kept[-1]:
            taken.add(claim.rank)
    free = (number for number in range(len(claims) + len(taken)) if number not in taken)
    places = [
        RankPlace(rank=claim.rank, origin=claim.origin, index=index)
        if is_kept
        else RankPlace(rank=next(free), origin=FROM_ORDER, index=index)
        for index, (claim, is_kept) in enumerate(zip(claims, kept, strict=True))
    ]
    times = Counter(place.rank for place in places)
    absent = (rank for rank in range(min(world_size, LARGEST_JOB)) if rank not in times)
    return RankOrder(
        places=tuple(sorted(places, key=lambda place: place.rank)),
        world_size=world_size,
        doubles=tuple(sorted(rank for rank, count in times.items() if count > 1)),
        missing=tuple(islice(absent, MOST_MISSING)),
    )
