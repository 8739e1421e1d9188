"""What `redline.digest` returns, and its report takes."""

from dataclasses import dataclass
from pathlib import Path

from redline.ranks.read_failures import Failure


@dataclass(frozen=True, kw_only=True)
class DigestResult:
    """What was written, and which files could not be read."""

    paths: tuple[Path, ...]
    size_bytes: int
    largest_bytes: int
    left_out: int  # digests that had to leave out exchanges: waiting in those cannot be told from transfer
    failures: tuple[Failure, ...]
