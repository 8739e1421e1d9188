"""Names of the digests of a job: each follows from its own trace and the list of files, so that any shard knows it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from redline.artifacts import DIGEST_ENDING
from redline.errors import InputError, UsageError
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import load_digest
from redline.timeline.timeline import NONE


def digest_targets(folder: Path, digests: Sequence[Digest], places: Sequence[int]) -> list[Path]:
    """By rank; where that is not known or claimed twice, by the place of the trace among the files of the job.

    `places` are those of the files of these digests. Of a file with several ranks, its digests are numbered too.
    """
    times = Counter(digest.origin.rank for digest in digests)
    ranks_in = Counter(places)
    before: Counter[int] = Counter()
    names = []
    for digest, place in zip(digests, places, strict=True):
        rank = digest.origin.rank
        member = f"-{before[place]}" if ranks_in[place] > 1 else ""
        before[place] += 1
        names.append(f"rank-{rank:05d}" if rank != NONE and times[rank] == 1 else f"trace-{place:05d}{member}")
    return [folder / f"{name}{DIGEST_ENDING}" for name in names]


def refuse_doubles(digests: Sequence[Digest], targets: Sequence[Path], files: Sequence[Path]) -> None:
    """Of a shard: UsageError where two of these files of the job claim one rank, as no shard can tell by which name
    each must go."""
    sources: dict[int, str] = {}
    for digest, target in zip(digests, targets, strict=True):
        rank, source = digest.origin.rank, digest.origin.source
        if rank == NONE:
            continue
        other = sources.setdefault(rank, source)
        other = _source_of(target) if other == source else other
        if other not in ("", source) and _is_of(other, files):
            raise UsageError(
                f"digest: rank {rank} is claimed by {source} and by {other}, and a shard does not see all claims; "
                "give each job to a command of its own, or leave `shard=...` out"
            )


def _source_of(target: Path) -> str:
    """The trace of a digest that is there; "" where none is."""
    if not target.exists():
        return ""
    try:
        return load_digest(target).origin.source
    except InputError:
        return ""


def _is_of(source: str, files: Sequence[Path]) -> bool:
    return any(source == str(path) or source.startswith(f"{path}!") for path in files)
