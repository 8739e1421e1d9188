"""The rank that a trace claims to be of, and how that is known."""

import json
import re
from collections.abc import Sequence
from pathlib import PurePath

from redline.timeline.timeline import NONE
from redline.trace.columns import Descriptions

_IN_FILE_NAME = re.compile(r"(?:rank|worker|gpu)[\s_.-]*(\d+)|(?:^|[_.-])r(\d+)(?=[_.-])", re.IGNORECASE)

LARGEST_JOB = 1_000_000  # ranks; a larger number in a trace is damage
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
