"""Work on the ranks of a trace that was digested before: each is told by where it is from and by its window."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from redline.ledger.rank.digest import Digest
from redline.ledger.rank.file_digests import Digesting
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.trace.reader import OfFile

Result = TypeVar("Result")
RankWork = Callable[[int, RankAnalysis], Result]
"""What is done with a rank, given its place in the job."""


@dataclass(frozen=True, kw_only=True)
class RankKey:
    """What tells a rank from the others of a job, before its number is known."""

    source: str
    zero_ns: int
    window_ns: tuple[int, int]

    @classmethod
    def of(cls, digest: Digest) -> "RankKey":
        return cls(source=digest.origin.source, zero_ns=digest.zero_ns, window_ns=digest.window_ns)

    @classmethod
    def of_analysis(cls, analysis: RankAnalysis) -> "RankKey":
        timeline = analysis.timeline
        return cls(source=timeline.source.name, zero_ns=timeline.zero_ns, window_ns=analysis.activity.window_ns)

    def is_from(self, path: Path) -> bool:
        return self.source == str(path) or self.source.startswith(f"{path}!")

    def is_of(self, analysis: RankAnalysis) -> bool:
        return (self.zero_ns, self.window_ns) == (analysis.timeline.zero_ns, analysis.activity.window_ns)


@dataclass(frozen=True, kw_only=True)
class WorkOnRanks(Generic[Result]):
    """The work on each rank of a file, by its place among the keys."""

    digesting: Digesting
    keys: tuple[RankKey, ...]
    work: RankWork[Result]

    def __call__(self, path: Path) -> OfFile[tuple[int, Result]]:
        left = {place: key for place, key in enumerate(self.keys) if key.is_from(path)}
        results = []
        for analysis in self.digesting.analyses(path):
            place = next((place for place, key in left.items() if key.is_of(analysis)), None)
            if place is not None:
                del left[place]
                results.append((place, self.work(place, analysis)))
        return OfFile(ranks=tuple(results), failures=())
