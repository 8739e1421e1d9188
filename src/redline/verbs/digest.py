"""`redline digest`: each rank's trace to a file of at most 32 KB, from which the job can be diagnosed."""

from collections.abc import Sequence
from pathlib import Path

from redline.analysis.job.digests import digest_job
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.digest_file import Saved, save_digest
from redline.artifacts import DIGEST_ENDING, refuse_unless_free
from redline.errors import UsageError
from redline.findings.match import match_rules
from redline.progress import Progress, ProgressStage, silent
from redline.ranks.find_files import find_traces
from redline.ranks.read_files import JobOptions
from redline.report.digest.digest_result import DigestResult
from redline.report.redaction.redactor import Redactor
from redline.storage import path_of


def digest(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    machine: str | None = None,
    redactor: Redactor | None = None,
    force: bool = False,
    options: JobOptions | None = None,
    progress: Progress = silent,
) -> DigestResult:
    """Digest the traces named by files, folders or patterns into the folder `output`, one file per rank.

    With a redactor, nothing gets into them that is private: hosts, users, folders, names of traces, secrets.
    """
    folder = path_of(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"digest: {folder} is a file; give a folder, it will hold one digest per rank")
    digested = digest_job(find_traces(paths), machine, options or JobOptions(), progress, match_rules)
    digests, failures = digested.digests, digested.failures
    if redactor is not None:
        digests, failures = redactor.redacted((digests, failures))
    targets = _targets(folder, digests)
    for target in targets:
        refuse_unless_free(target, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    saved: list[Saved] = []
    for rank_digest, target in zip(digests, targets, strict=True):
        progress(ProgressStage.WRITE, len(saved), len(digests))
        saved.append(save_digest(rank_digest, target, made_by="redline digest", force=force))
    return DigestResult(
        paths=tuple(targets),
        size_bytes=sum(file.size_bytes for file in saved),
        largest_bytes=max(file.size_bytes for file in saved),
        left_out=sum(1 for file in saved if "exchanges" in file.left_out),
        failures=failures,
    )


def _targets(folder: Path, digests: Sequence[Digest]) -> list[Path]:
    """Named by rank; by a running number too where ranks are unknown or claimed twice."""
    ranks = [rank_digest.origin.rank for rank_digest in digests]
    unique = len(set(ranks)) == len(ranks) and min(ranks) >= 0
    names = (f"rank-{rank:05d}" if unique else f"trace-{number:05d}" for number, rank in enumerate(ranks))
    return [folder / f"{name}{DIGEST_ENDING}" for name in names]
