"""Which rank a trace is of, and how that is known; then the ranks of a whole job: doubles, and who is missing."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath

from redline.timeline.timeline import NONE
from redline.trace.columns import Descriptions

_IN_FILE_NAME = re.compile(r"(?:rank|worker|gpu)[\s_.-]*(\d+)|(?:^|[_.-])r(\d+)(?=[_.-])", re.IGNORECASE)

LARGEST_JOB = 1_000_000  # ranks; a larger number in a trace is damage
MOST_MISSING = 100_000  # that are listed
FROM_METADATA = "distributedInfo"
FROM_PROCESS_NAME = "process name"
FROM_COLLECTIVES = "collective metadata"
FROM_FILE_NAME = "file name"
FROM_ORDER = "order of the files"
STATED = frozenset({FROM_METADATA, FROM_PROCESS_NAME})


def rank_in_groups(descriptions: Descriptions, texts: Sequence[str]) -> int:
    """The global rank that collective metadata implies: a rank within a group whose members are listed."""
    pairs = zip(descriptions.rank.tolist(), descriptions.group_ranks.tolist(), strict=True)
    for within, members in dict.fromkeys(pairs):
        try:
            ranks = json.loads(texts[members]) if members != NONE else []
        except (ValueError, RecursionError):
            continue
        if isinstance(ranks, list) and 0 <= within < len(ranks) and is_rank(ranks[within]):
            return int(ranks[within])
    return NONE


def is_rank(value: object) -> bool:
    """Whether a value can be a rank: a number that some job could have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_JOB


def rank_in_file_name(name: str) -> int:
    match = _IN_FILE_NAME.search(PurePath(name).name)
    if match is None:
        return NONE
    return rank_from(match.group(1) or match.group(2))


def rank_from(digits: str) -> int:
    """The rank that digits spell, -1 if no job is that large."""
    rank = int(digits) if len(digits) <= len(str(LARGEST_JOB)) else NONE
    return rank if is_rank(rank) else NONE


@dataclass(frozen=True, kw_only=True)
class JobRanks:
    """The rank given to each timeline of a job, and what does not add up."""

    ranks: tuple[int, ...]
    origins: tuple[str, ...]
    doubles: tuple[int, ...]  # ranks that more than one timeline claims
    missing: tuple[int, ...]  # ranks of the world that no timeline is of


def job_ranks(claims: Sequence[tuple[int, str]], world_size: int) -> JobRanks:
    """Ranks of a job from what each timeline claims (-1: nothing), in the order given.

    Where nothing is claimed, or two claim the same rank by inference only, the free numbers are given in order.
    """
    stated = [rank for rank, origin in claims if rank != NONE and origin in STATED]
    taken = set(stated)
    ranks, origins = [], []
    free = (number for number in range(len(claims) + max(taken, default=0) + 1) if number not in taken)
    for rank, origin in claims:
        if rank != NONE and (origin in STATED or rank not in taken):
            taken.add(rank)
            ranks.append(rank)
            origins.append(origin)
        else:
            ranks.append(next(number for number in free if number not in taken))
            taken.add(ranks[-1])
            origins.append(FROM_ORDER)
    doubles = tuple(sorted(rank for rank, times in Counter(ranks).items() if times > 1))
    absent = (rank for rank in range(min(world_size, LARGEST_JOB)) if rank not in taken)
    missing = tuple(islice(absent, MOST_MISSING))
    return JobRanks(ranks=tuple(ranks), origins=tuple(origins), doubles=doubles, missing=missing)
