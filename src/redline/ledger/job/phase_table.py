"""The average step of a rank by phase: how long each lasts, and what of it is device, host and waiting."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_phases import PHASES, Phase
from redline.ledger.rank.phases import KINDS


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRow:
    """One phase of the average step, in ns."""

    phase: Phase
    device_ns: float
    host_ns: float
    waiting_ns: float
    share: float  # of the step

    @property
    def time_ns(self) -> float:
        return self.device_ns + self.host_ns + self.waiting_ns


def phase_table(ranks: Sequence[Digest]) -> tuple[PhaseRow, ...]:
    """All phases in order; none where a rank does not tell them, or nothing takes any time."""
    if not all(rank.phases for rank in ranks):
        return ()
    total = np.array([rank.phases for rank in ranks], np.float64).sum(axis=0).reshape(len(PHASES), len(KINDS))
    steps = sum(len(rank.ledger.start_ns) for rank in ranks)
    if not steps or not total.sum():
        return ()
    shares = total.sum(axis=1) / total.sum()
    return tuple(
        PhaseRow(phase=phase, device_ns=cells[0], host_ns=cells[1], waiting_ns=cells[2], share=share)
        for phase, cells, share in zip(PHASES, (total / steps).tolist(), shares.tolist(), strict=True)
    )
