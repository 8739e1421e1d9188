"""The replay of a job's steps: the critical path, what-ifs that were asked for, the fix of each finding."""

from collections.abc import Mapping
from dataclasses import field

from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class PathPart:
    """A part of the critical path, of the average step."""

    what: str  # an account, a phase, an operator or kernel, or a rank
    time_ns: float
    share: float  # of the path


@dataclass(frozen=True, kw_only=True)
class BesidePath:
    """Device work that nothing waits for at once."""

    what: str  # its name
    time_ns: float  # of the average step, of pieces that are beside the path
    slack_ns: int  # so much longer any one of these pieces could take before the steps do


@dataclass(frozen=True, kw_only=True)
class CriticalPathParts:
    """The parts of the critical path of the steps; each table has the longest first."""

    accounts: tuple[PathPart, ...]  # those of the ledger, compute as one
    phases: tuple[PathPart, ...] = ()  # none where they are not known
    operators: tuple[PathPart, ...] = ()  # operators on a CPU, kernels on a GPU
    ranks: tuple[PathPart, ...] = ()
    beside: tuple[BesidePath, ...] = ()  # what of the device is not on it

    @property
    def limit(self) -> str:
        """The account with the largest part; "" where there is none."""
        return self.accounts[0].what if self.accounts else ""


@dataclass(frozen=True, kw_only=True)
class ReplayedScenario:
    """The steps with something changed; times are of the average step."""

    name: str  # as it is written
    step_ns: float
    after_ns: float
    declined: str = ""  # why it was not replayed; then the times are those of the unchanged steps
    notes: tuple[str, ...] = ()  # what it rests on
    limit: str = ""  # the account that most of the critical path is in afterwards
    limit_share: float = 0.0  # of that path
    ranks: tuple[tuple[int, float, float], ...] = ()  # where they differ: rank, its average step before and after

    @property
    def gain_share(self) -> float:
        """The share of the step; negative where it is longer."""
        return (self.step_ns - self.after_ns) / self.step_ns if self.step_ns else 0.0


@dataclass(frozen=True, kw_only=True)
class ReplayedJob:
    """The steps of a job as a graph of what waited for what, replayed with changes."""

    declined: str = ""  # why nothing is forecast
    starts: int = 0  # of device work
    unexplained: int = 0  # of these: they came later than all that they are known to have waited for
    rule_error: float = 0.0  # how far off the steps are when replayed by dependencies alone, as a share of them; signed
    ranks: int = 0  # that were replayed
    coarse: str = ""  # why phases and exchanges were replayed, and not single kernels and calls
    path: CriticalPathParts | None = None
    asked: tuple[ReplayedScenario, ...] = ()
    fixes: Mapping[str, ReplayedScenario] = field(default_factory=dict)  # by code of the finding
    first_fixes: tuple[str, ...] = ()  # the findings with the largest forecasts, three at most
    after_first: ReplayedScenario | None = None  # these fixes together

    @property
    def unexplained_share(self) -> float:
        return self.unexplained / max(self.starts, 1)
