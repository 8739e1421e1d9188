"""Ranks kept as they were digested, with what rules claim of them: a replay then does not open their traces again."""

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper

from redline.findings.match import claimed_in_order, match_rules, matched_rules, rules_of
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.file_digests import RankKey
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.rank_match import RankMatch
from redline.timeline.intervals import Intervals
from redline.values import dataclass

_MOST_SPANS = 1_000_000  # of all ranks: beyond it traces are opened again, which costs time instead of memory


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptRank:
    """A rank whose trace is open."""

    analysis: RankAnalysis
    claims: Mapping[str, Intervals]  # of each rule that matches, by code: all of it, whoever else claims it


class RankKeeper:
    """Matches rules as `match_rules` does, and keeps the ranks: of a small job, and in the process that reads it."""

    def __init__(self) -> None:
        update_wrapper(self, match_rules)  # the cache of digests tells by its name what made them: it is the same
        self._kept: list[KeptRank] = []
        self._spans = 0

    def __call__(self, analysis: RankAnalysis) -> tuple[RankMatch, ...]:
        found = matched_rules(analysis, rules_of(analysis))
        self._spans += len(analysis.timeline.spans)
        if self._spans <= _MOST_SPANS:
            self._kept.append(KeptRank(analysis=analysis, claims={rule.code: matched.claim for rule, matched in found}))
        else:
            self._kept.clear()
        return claimed_in_order(analysis, found)

    def __reduce__(self) -> tuple[Callable[[], Callable[[RankAnalysis], tuple[RankMatch, ...]]], tuple[()]]:
        """In another process nothing is kept: nobody would ask for it there."""
        return _without_keeping, ()

    def taken(self, digests: Sequence[Digest]) -> dict[int, KeptRank]:
        """Those of these digests that are kept, by place. Afterwards none is."""
        left: dict[RankKey, list[KeptRank]] = {}
        for rank in self._kept:
            left.setdefault(RankKey.of_analysis(rank.analysis), []).append(rank)
        self._kept.clear()
        found = ((place, left.get(RankKey.of(digest))) for place, digest in enumerate(digests))
        return {place: ranks.pop(0) for place, ranks in found if ranks}


def _without_keeping() -> Callable[[RankAnalysis], tuple[RankMatch, ...]]:
    return match_rules
