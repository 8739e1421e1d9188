"""What a window adds to the series of its job: a few figures of the job, and one of each rank."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from redline.findings.aggregate import findings_of
from redline.ledger.accounts import COMMUNICATION, Account, place
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest import Digest
from redline.timeline.table import I64

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class WindowName:
    """Which window of which start of the job."""

    restart: int  # by torchrun; 0 for the first start
    number: int
    text: str  # as its folders are named: window-3, restart-1/window-3

    @property
    def order(self) -> tuple[int, int, str]:
        return self.restart, self.number, self.text


@dataclass(frozen=True, kw_only=True)
class FindingShare:
    """A finding of the window: its code, and the most that the job gains by it as the only fix."""

    code: str
    gain_share: float  # of the step


@dataclass(frozen=True, kw_only=True)
class LateShare:
    """A rank that others waited for, by exchanges."""

    rank: int
    share: float  # of all waiting
    wait_share: float  # of the step: what an average other rank waited for it
    cause: str


@dataclass(frozen=True, kw_only=True)
class WindowFigures:
    """One window of a job."""

    name: WindowName
    start_ns: int  # since 1970, on the clock of the first rank
    steps: int
    step_ns: float  # median of all steps of all ranks
    accounts: Mapping[Account, float]  # of the average step, ns
    world_size: int
    ranks: I64
    hosts: tuple[str, ...]  # of these ranks; "" where unknown
    own_ns: Floats  # median step of each rank without communication: how long it works by itself
    silent: tuple[int, ...] = ()  # ranks of the job that left no digest
    findings: tuple[FindingShare, ...] = ()
    late: tuple[LateShare, ...] = ()
    failures: tuple[str, ...] = ()  # digests that could not be read

    def account_share(self, *accounts: Account) -> float:
        total = sum(self.accounts.values())
        return sum(self.accounts[account] for account in accounts) / total if total else 0.0


_MOST_LATE = 4
_MOST_FINDINGS = 8


def figures_of(
    diagnosis: Diagnosis, name: WindowName, silent: tuple[int, ...], world_size: int, failures: tuple[str, ...] = ()
) -> WindowFigures:
    """Figures of digests that were combined by the functions of `diagnose`."""
    outline = outline_of(diagnosis)
    findings = findings_of(diagnosis, outline).findings
    ranks = diagnosis.ranks
    return WindowFigures(
        name=name,
        start_ns=ranks[0].zero_ns + ranks[0].window_ns[0],
        steps=outline.steps.steps,
        step_ns=outline.steps.median_ns,
        accounts=diagnosis.per_step,
        world_size=world_size,
        ranks=np.array([rank.origin.rank for rank in ranks], np.int64),
        hosts=tuple(rank.origin.host for rank in ranks),
        own_ns=np.array([_own_ns(rank) for rank in ranks]),
        silent=silent,
        findings=tuple(
            FindingShare(code=finding.code, gain_share=finding.alone_share) for finding in findings[:_MOST_FINDINGS]
        ),
        late=_late(diagnosis),
        failures=failures,
    )


def _own_ns(rank: Digest) -> float:
    """Communication is left out whole, as a rank that is late shows in the communication of the others."""
    communicating = [place(account) for account in COMMUNICATION]
    own_ns = rank.ledger.end_ns - rank.ledger.start_ns - rank.ledger.steps[:, communicating].sum(axis=1)
    return float(np.median(own_ns)) if len(own_ns) else 0.0


def _late(diagnosis: Diagnosis) -> tuple[LateShare, ...]:
    if diagnosis.lateness is None or not diagnosis.lateness.wait_ns:
        return ()
    others, total_ns = max(len(diagnosis.ranks) - 1, 1), sum(rank.ledger.window_ns for rank in diagnosis.ranks)
    of_an_other_ns = others * total_ns / len(diagnosis.ranks)
    return tuple(
        LateShare(
            rank=late.rank, share=late.share, wait_share=late.caused_ns / max(of_an_other_ns, 1.0), cause=late.cause
        )
        for late in diagnosis.lateness.ranks[:_MOST_LATE]
    )
