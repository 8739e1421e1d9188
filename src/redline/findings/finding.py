"""A finding: a loss in the ledger with its cause, its evidence, and the most that fixing it can gain."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from redline.findings.evidence import Evidence, Grade, Numerics


@dataclass(frozen=True, kw_only=True)
class ClaimedTime:
    """A stretch of time that a finding claims, on the clock of its rank's window."""

    rank: int
    start_ns: int  # since the window of the rank began
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Times are of the average step of a rank. Title, cause and fixes are in the page of its code."""

    code: str
    numerics: Numerics
    grade: Grade
    step_ns: float
    bound_ns: float  # claimed by this finding and no other: bounds of all findings add up to what is there at most
    alone_ns: float  # the most it can gain as the only fix; the rest is in the bounds of findings before it
    steady_share: float  # alone_ns as a share of the step, of steps of usual length only
    accounts: Mapping[str, float]  # of bound_ns
    ranks: int  # that it was seen on
    places: tuple[ClaimedTime, ...]  # the longest stretches that it claims
    evidence: tuple[Evidence, ...]
    fix: Evidence | None = None  # filled with what was seen; None: the page has a pattern

    @property
    def share(self) -> float:
        """Of the step, that is claimed by no other finding."""
        return self.bound_ns / self.step_ns if self.step_ns else 0.0

    @property
    def alone_share(self) -> float:
        return self.alone_ns / self.step_ns if self.step_ns else 0.0

    @property
    def speedup(self) -> float:
        """At most so many times as fast, on steps of usual length, with this fix alone."""
        return 1 / max(1 - self.steady_share, 1e-9)


class Limit(StrEnum):
    """What a job is limited by."""

    COMPUTE = "compute"
    MEMORY = "memory bandwidth"
    COMMUNICATION = "communication"
    OVERHEAD = "overhead"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The job in one sentence."""

    limit: Limit
    limit_share: float  # of the average step
    idle_share: float  # of the average step
    math_share: float | None  # of the average step: how near the redline; None where too little work has a roof
    worthwhile: bool  # some finding is worth acting on
    healthy: bool  # none is, and the device spends its time on its work
    first: str  # code of the first finding; "" where there is none
    phases: Mapping[str, int]  # steps of a serving engine by phase


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found, the largest bound first."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    remarks: tuple[Finding, ...]  # of rules that claim no time: phases, and what to check before acting
    praise: tuple[Evidence, ...]  # what the job does well
