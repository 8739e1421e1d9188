"""The digests of one window, combined by the functions of `diagnose`, to its figures."""

from collections.abc import Callable, Sequence
from pathlib import Path

from redline.findings.match import check_matches, match_rules
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.rank.digest import Digest
from redline.watch.window_figures import WindowFigures, WindowName, figures_of

_MOST_FAILURES = 8


def world_size_of(path: Path) -> int:
    """As one digest says; 0 where it does not. Raises InputError where it cannot be read."""
    return max(digest.origin.world_size for digest in _digests([path])[0])


def window_figures(paths: Sequence[Path], name: WindowName, expected: Sequence[int]) -> WindowFigures:
    """`expected` are ranks that must have come where no digest states the size of the job. A digest that cannot be
    read is a rank that is silent, and its failure is told. Raises InputError where none can be read."""
    digests, failures = _digests(paths)
    diagnosis = combine(digests)
    known = {rank.origin.rank for rank in diagnosis.ranks}
    silent = diagnosis.missing or tuple(sorted(set(expected) - known))
    size = diagnosis.world_size or len(known | set(expected))
    return figures_of(diagnosis, name, silent, size, failures[:_MOST_FAILURES])


def _digests(paths: Sequence[Path]) -> tuple[tuple[Digest, ...], tuple[str, ...]]:
    digested = digest_job(paths, None, JobOptions(use_cache=False, jobs=1), match=match_rules, check=check_matches)
    return digested.digests, tuple(failure.message for failure in digested.failures)


Reader = Callable[[Sequence[Path], WindowName, Sequence[int]], WindowFigures]
