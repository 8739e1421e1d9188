"""The digests of a job: from traces, read in parallel, or from files that were digested before."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from redline.artifacts import DIGEST_ENDING
from redline.errors import InputError, UsageError
from redline.hardware.profile import choose
from redline.job.read_failures import Failure
from redline.job.read_files import JobOptions, gather
from redline.ledger.rank.digest import Digest, RuleMatcher
from redline.ledger.rank.digest_file import is_digest, load_digest
from redline.ledger.rank.file_digests import Digester, RankKey, RankWork, ReopenedRanks, Result
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.progress import Progress, silent
from redline.timeline.timeline import NONE
from redline.values import dataclass

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel
    from redline.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class Digested:
    """Digests in the order of their files, and what could not be read."""

    digests: tuple[Digest, ...]
    places: tuple[int, ...]  # for each digest, of its file among those given
    failures: tuple[Failure, ...]


def digest_job(
    paths: Sequence[Path],
    machine: str | None,
    options: JobOptions,
    progress: Progress = silent,
    match: RuleMatcher | None = None,
    check: Callable[[Digest, str], None] | None = None,
) -> Digested:
    """`machine` is what the user chose: a record of the catalogue or a profile; None matches each trace's device.

    `match` looks for causes on each rank while its trace is open; `check` raises InputError where those in the digest
    of a file, which is named to it, or of the cache are not whole.
    """
    digesting = replace(_digesting(paths, machine, options), match=match, check=check)
    if all(map(digesting.is_digested, paths)):
        options = replace(
            options, executor="pool", address=None, jobs=1
        )  # passing digests between processes would cost more than reading them
    results, failures = gather(digesting.digests_of, paths, options, progress)
    read = [(digest, index) for index in sorted(results) for digest in results[index].ranks]
    if not read:
        raise InputError(failures[0].message if failures else f"{paths[0]}: no rank in it.")
    digests, places = zip(*read, strict=True)
    return Digested(digests=digests, places=places, failures=tuple(failures))


def analysis_again(
    digest: Digest, paths: Sequence[Path], machine: str | None, options: JobOptions
) -> RankAnalysis | None:
    """The trace of one rank, opened again; None where none of these files is the trace that was digested."""
    return next((analysis for _, analysis in analyses_again([digest], paths, machine, options)), None)


def analyses_again(
    digests: Sequence[Digest], paths: Sequence[Path], machine: str | None, options: JobOptions
) -> Iterator[tuple[int, RankAnalysis]]:
    """The traces of ranks, opened again one after the other, in this process; each with its place among the digests."""
    left = {place: RankKey.of(digest) for place, digest in enumerate(digests)}
    for path in paths:
        if is_digest(path) or not any(key.is_from(path) for key in left.values()):
            continue
        for analysis in _digesting([path], machine, options).analyses(path):
            places = (place for place, key in left.items() if key.is_from(path) and key.is_of(analysis))
            place = next(places, None)
            if place is not None:
                del left[place]
                yield place, analysis


def work_on_ranks(
    digests: Sequence[Digest],
    paths: Sequence[Path],
    machine: str | None,
    options: JobOptions,
    work: RankWork[Result],
    progress: Progress = silent,
) -> dict[int, Result]:
    """What the work gives on each rank whose trace is among these files, by its place; traces are opened again.

    The work has to be picklable. A file that cannot be read now gives nothing.
    """
    keys = tuple(map(RankKey.of, digests))
    traces = [path for path in paths if not is_digest(path) and any(key.is_from(path) for key in keys)]
    if not traces:
        return {}
    on_file = ReopenedRanks(digesting=_digesting(traces, machine, options), keys=keys, work=work)
    results, _ = gather(on_file, traces, options, progress)
    return dict(pair for index in sorted(results) for pair in results[index].ranks)


def _digesting(paths: Sequence[Path], machine: str | None, options: JobOptions) -> Digester:
    chosen = choose(machine, "") if machine is not None else None
    return Digester(
        reading=options.reading_of(paths),
        folder=options.cache,
        chosen=chosen,
        served=_served(options.model),
        keep_memory=_kept_memory,
    )


def _kept_memory(timeline: "Timeline") -> bytes:
    from redline.ledger.memory.rank_memory import rank_memory  # of no use to traces without memory events

    return rank_memory(timeline)


def _served(model: str | None) -> "ServedModel | None":
    if model is None:
        return None
    from redline.model.served_model import served_model

    return served_model(model)


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
        if other not in ("", source) and any(other == str(path) or other.startswith(f"{path}!") for path in files):
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
