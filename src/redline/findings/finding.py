"""A finding: a loss in the ledger with its cause, its evidence, and the most that fixing it can gain."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from redline.findings.evidence import Bearing, Evidence, Grade
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class ClaimedTime:
    """A stretch of time that a finding claims, on the clock of its rank's window."""

    rank: int
    start_ns: int  # since the window of the rank began
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class GainForecast:
    """The gain of a fix by the replay of the steps with its cause gone, as the only fix; of the average step."""

    gain_ns: float  # at most what the finding can gain alone
    replayed_ns: float  # what the replay says, which may be more
    declined: str = ""  # why there is none


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Times are of the average step of the job. Title, cause and fixes are in the page of its code."""

    code: str
    numerics: Numerics
    grade: Grade
    step_ns: float
    bound_ns: float  # gained beyond the findings that claim before it: all bounds add up to the step at most
    alone_ns: float  # the most that the job can gain by it as the only fix: ranks wait for each other
    steady_share: float  # alone_ns as a share of the step, of steps of usual length only
    accounts: Mapping[str, float]  # claimed by this finding and no other, of the average rank
    ranks: int  # that it was seen on
    places: tuple[ClaimedTime, ...]  # the longest stretches that it claims
    evidence: tuple[Evidence, ...]
    fix: Evidence | None = None  # filled with what was seen; None: the page has a pattern
    of_window: bool = False  # no steps were recognised: "the step" is the recorded window
    forecast: GainForecast | None = None  # None where the steps were not replayed

    @property
    def forecast_ns(self) -> float | None:
        """The gain as the only fix, by a replay; None where there is no forecast."""
        return None if self.forecast is None or self.forecast.declined else self.forecast.gain_ns

    @property
    def expected_ns(self) -> float:
        """The gain as the only fix: by the forecast where there is one, else at most."""
        return self.alone_ns if self.forecast_ns is None else self.forecast_ns

    @property
    def expected_share(self) -> float:
        return self.expected_ns / self.step_ns if self.step_ns else 0.0

    @property
    def is_void(self) -> bool:
        """Its page says to ignore it in such a trace."""
        return any(sentence.bearing is Bearing.VOIDS for sentence in self.evidence)

    @property
    def doubts(self) -> tuple[Evidence, ...]:
        """The sentences that weaken or void its claim."""
        return tuple(sentence for sentence in self.evidence if sentence.bearing is not Bearing.SUPPORTS)

    @property
    def place(self) -> str:
        """Function and line that the evidence names; "" where it names none."""
        return next((place for sentence in self.evidence if (place := sentence.place)), "")

    @property
    def share(self) -> float:
        """The share of the step that is claimed by no other finding."""
        return self.bound_ns / self.step_ns if self.step_ns else 0.0

    @property
    def alone_share(self) -> float:
        return self.alone_ns / self.step_ns if self.step_ns else 0.0

    @property
    def speedup(self) -> float:
        """At most so many times as fast, on steps of usual length, with this fix alone."""
        return 1 / max(1 - self.steady_share, 1e-9)


class Limit(StrEnum):
    """The limit of a job."""

    COMPUTE = "compute"
    MEMORY = "memory bandwidth"
    KERNELS = "kernel efficiency"  # kernels run longer than their FLOPs and bytes need
    UNRATED = "unrated kernels"  # kernels whose FLOPs or peak is not known
    COMMUNICATION = "communication"
    OVERHEAD = "overhead"


OF_KERNELS = (Limit.COMPUTE, Limit.MEMORY, Limit.KERNELS, Limit.UNRATED)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The job in one sentence."""

    limit: Limit
    limit_share: float  # of the judged step: the accounts of that limit
    kernel_share: float  # of the judged step: all compute, as the next three are of the judged step
    judged_idle_share: float
    copy_share: float
    exposed_share: float  # transfer and waiting for other ranks
    idle_share: float  # of the average step, as in its ledger
    unjudged_share: float  # of the average step: queue time before the first recorded work, in nobody's account
    math_share: float | None  # of the judged step: how near the redline; None where too little work has a roof
    rated_share: float  # of the kernel time: its FLOPs, bytes and peak are known
    roof_share: float | None  # of the rated kernel time: what is needed at the roof; None where nothing is rated
    worthwhile: bool  # some finding is worth acting on
    healthy: bool  # none is, little is lost outside kernels, and most kernel time is rated and near its roof
    first: str  # code of the finding that the verdict rests on; "" where there is none
    phases: Mapping[str, int]  # steps of a serving engine by phase
    starved_share: float = 0.0  # of the average step: the job waited for cores, and no other loss is larger

    @property
    def lost_share(self) -> float:
        """The share of the judged step that is waiting, copying and exposed communication together."""
        return self.judged_idle_share + self.copy_share + self.exposed_share


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found, the largest bound first."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    remarks: tuple[Finding, ...]  # of rules that claim no time: phases, and what to check before acting
    praise: tuple[Evidence, ...]  # what the job does well
    claims: Mapping[str, tuple[Intervals, ...]] = field(default_factory=dict)
    """By code of a rule that needs all ranks: what it claims of each, on the clock of its ledger."""
