"""`redline digest`: each rank's trace to a file of at most 32 KB, from which the job can be diagnosed."""

from collections.abc import Sequence
from pathlib import Path

from redline.artifacts import refuse_unless_free
from redline.errors import UsageError
from redline.findings.match import match_rules
from redline.job.find_files import read_found
from redline.job.read_files import JobOptions
from redline.job.shard import Shard
from redline.ledger.job.digests import Digested, digest_job, digest_targets, refuse_doubles
from redline.ledger.rank.digest_file import Saved, save_digest
from redline.progress import Progress, ProgressStage, silent
from redline.report.redaction.redactor import Redactor
from redline.report.written import DigestResult
from redline.storage import path_of


def digest(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    machine: str | None = None,
    shard: Shard | None = None,
    redactor: Redactor | None = None,
    force: bool = False,
    options: JobOptions | None = None,
    progress: Progress = silent,
) -> DigestResult:
    """Digest the traces named by files, folders or patterns into the folder `output`, one file per rank.

    With a shard, only its part of them: all parts together leave the files that one command would.
    With a redactor, nothing gets into them that is private: hosts, users, folders, names of traces, secrets.
    """
    folder = path_of(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"digest: {folder} is a file; give a folder, it will hold one digest per rank")
    if shard is not None and redactor is not None:
        raise UsageError(
            "digest: each part of a job would give the same host another mark; leave `redact=True` out, and give it to "
            "`redline diagnose` of the digests"
        )

    def digested_part(files: list[Path]) -> tuple[list[int], Digested | None]:
        """With the places of its files among all; none where there are more tasks than traces."""
        part = (shard or Shard(index=0, count=1)).of(files)
        read = list(part.values())
        return list(part), digest_job(read, machine, options or JobOptions(), progress, match_rules) if read else None

    files, (all_places, digested) = read_found(paths, digested_part)
    if digested is None:
        return DigestResult(paths=(), size_bytes=0, largest_bytes=0, left_out=0, failures=())
    digests, failures = digested.digests, digested.failures
    if redactor is not None:
        digests, failures = redactor.redacted((digests, failures))
    targets = digest_targets(folder, digests, [all_places[place] for place in digested.places])
    if shard is not None:
        refuse_doubles(digests, targets, files)
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
