"""A rule: how one cause of lost time is recognised, and what is known of its fix. Its prose is its page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.finding import Finding
from redline.findings.what_if import WhatIf, claimed_time_gone
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.replay.changes import Change
from redline.timeline.intervals import Intervals


@dataclass(frozen=True, kw_only=True)
class RuleMatch:
    """Where a rule matches on one rank. A fix that makes a kernel shorter claims the end of that kernel's time."""

    claim: Intervals
    figures: Mapping[str, float] = field(default_factory=dict)  # those of several ranks are added
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JobMatch:
    """Where a rule matches when all ranks are together: for each of them the exposed communication that it claims.

    A rule that claims no time needs no claims.
    """

    claims: Sequence[Intervals] = ()
    of_one_rank: bool = False  # ranks wait in turn for one cause: the job gains what one of them does, not all of it
    beside: Sequence[Intervals] = ()  # time of each rank that goes too where this is the only fix, whoever claims it
    figures: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MatchTotals:
    """A rule's matches on all ranks, added up; times are of the average step of a rank, whose job may gain more."""

    ranks: int  # that it matches on
    steps: int  # of all ranks together, whether it matches there or not
    step_ns: float
    bound_ns: float
    alone_ns: float
    figures: Mapping[str, float]
    names: Mapping[str, str]

    @property
    def share(self) -> float:
        """Of the step: what the fix could be worth if it were the only one."""
        return self.alone_ns / self.step_ns if self.step_ns else 0.0

    def per_step(self, figure: str) -> float:
        return self.figures.get(figure, 0.0) / max(self.steps, 1)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One cause. `match` finds it on a rank, `match_job` needs all ranks, `match_findings` what the rules before it
    found; `explain` says what was found.

    `explain` may return nothing: then the rule is silent. Below `least_share` of the step it is not asked.
    """

    code: str
    claims: ClaimOrder
    numerics: Numerics
    grade: Grade
    explain: Callable[[MatchTotals], Iterable[Evidence]]
    fix: Callable[[MatchTotals], Evidence | None] | None = None  # the smallest fix, filled with what was seen
    figures: tuple[str, ...] = ()  # that `explain` needs of every rank where `match` found something, as it does names
    names: tuple[str, ...] = ()
    match: Callable[[RankAnalysis], RuleMatch | None] | None = None
    ends: Callable[[Digest], Mask] | None = None  # exchanges whose exposed time goes too where this is the only fix of
    # a rank, whoever claims them
    match_job: Callable[[Diagnosis], JobMatch | None] | None = None
    match_findings: Callable[[Sequence[Finding]], JobMatch | None] | None = None
    what_if: WhatIf = claimed_time_gone  # what its fix changes on a rank, to replay the step with the cause gone
    what_if_job: Callable[[Diagnosis], tuple[Change, ...]] | None = None  # instead, where it takes all ranks to say
    no_replay: str = ""  # why no replay can tell what the fix gains
    least_share: float = 0.01
    is_indirect: bool = False  # it costs time only with another cause, which is named first where both gain the same
    is_launch_bound: bool = False  # the host launches too slowly: until that is fixed, shorter kernels gain little
    applies_to_plans: bool = False
    """Whether it also holds for timelines that a plan predicted. A plan draws the host as a gap, and links as fast as
    they are assumed to be: a rule about what a program was seen to do would only find the drawing."""

    @property
    def claims_time(self) -> bool:
        return self.claims is not ClaimOrder.NOTHING
