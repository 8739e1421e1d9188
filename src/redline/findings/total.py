"""Matches of a rule on all ranks, added up rank by rank: nothing is kept of a rank that the job does not need."""

from collections import Counter, defaultdict

from redline.findings.finding import ClaimedTime
from redline.findings.job_gain import Pieces
from redline.findings.rule import Rule
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.rank_match import RankMatch
from redline.timeline.table import I64

_MOST_PLACES = 8
_AT_ONCE = 1024  # places that are looked through together


class Total:
    """The matches of one rule, in order of ranks."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._names: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._places: list[tuple[int, int, int]] = []  # minus the length, rank, start
        self.matches = 0
        self.ranks = 0  # that it was seen on
        self.claimed_ns = 0
        self.alone_ns = 0
        self.places: list[int] = []  # of the ranks that it matches on, in the job
        self.claimed_by_rank: list[I64] = []  # by step, of these ranks
        self.alone_by_rank: list[I64] = []
        self.alone_pieces: list[Pieces] = []  # when, where that is exposed communication of all ranks
        self.claimed_pieces: list[Pieces] = []
        self.figures: defaultdict[str, float] = defaultdict(float)
        self.accounts: Counter[str] = Counter()

    def add(self, rank: Digest, match: RankMatch, place: int) -> None:
        self.matches += 1
        self.ranks += bool(match.alone_ns.any()) or not self.rule.claims_time
        self.claimed_ns += int(match.claimed_ns.sum())
        self.alone_ns += int(match.alone_ns.sum())
        self.places.append(place)
        self.claimed_by_rank.append(match.claimed_ns)
        self.alone_by_rank.append(match.alone_ns)
        self.accounts.update(match.accounts)
        for name, amount in match.figures.items():
            self.figures[name] += amount
        for name, text in match.names.items():
            self._names[name][text] += 1
        for start_ns, end_ns in zip(match.places.start.tolist(), match.places.end.tolist(), strict=True):
            self._places.append((start_ns - end_ns, rank.origin.rank, start_ns - rank.window_ns[0]))
        if len(self._places) > _AT_ONCE:
            self._places = sorted(self._places)[:_MOST_PLACES]

    @property
    def commonest_names(self) -> dict[str, str]:
        """What most ranks say."""
        return {name: texts.most_common(1)[0][0] for name, texts in self._names.items()}

    @property
    def longest_places(self) -> tuple[ClaimedTime, ...]:
        return tuple(
            ClaimedTime(rank=rank, start_ns=start_ns, end_ns=start_ns - minus_ns)
            for minus_ns, rank, start_ns in sorted(self._places)[:_MOST_PLACES]
        )
