"""`redline digest`: each rank's trace to a file of at most 32 KB, from which the job can be diagnosed."""

from collections.abc import Sequence
from pathlib import Path

from redline.analysis.job.digest_targets import digest_targets, refuse_doubles
from redline.analysis.job.digests import digest_job
from redline.analysis.rank.digest_file import Saved, save_digest
from redline.artifacts import refuse_unless_free
from redline.errors import UsageError
from redline.findings.match import match_rules
from redline.progress import Progress, ProgressStage, silent
from redline.ranks.find_files import find_traces
from redline.ranks.read_files import JobOptions
from redline.ranks.shard import Shard
from redline.report.digest.digest_result import DigestResult
from redline.report.redaction.redactor import Redactor
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
    files = find_traces(paths)
    part = (shard or Shard(index=0, count=1)).of(files)
    if not part:  # more tasks than traces
        return DigestResult(paths=(), size_bytes=0, largest_bytes=0, left_out=0, failures=())
    digested = digest_job(list(part.values()), machine, options or JobOptions(), progress, match_rules)
    digests, failures = digested.digests, digested.failures
    if redactor is not None:
        digests, failures = redactor.redacted((digests, failures))
    all_places = list(part)
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
