"""What a trace tells of its fullest moment beyond the accounts: its phase, and what earlier steps have left."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from redline.ledger.memory.allocations import BEFORE
from redline.ledger.memory.attribution import ACCOUNTS
from redline.ledger.memory.device_memory import PeakEvidence
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.ledger.memory.step_phases import StepPhases
from redline.ledger.memory.trace_accounts import TraceAccounts
from redline.ledger.memory.trace_memory import TraceMemory
from redline.ledger.rank.host_phases import PHASES, Phase

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
_OF_A_STEP = (MemoryAccount.ACTIVATIONS, MemoryAccount.LOGITS)  # that no later step reads


def peak_evidence(memory: TraceMemory, told: TraceAccounts, phases: StepPhases) -> PeakEvidence:
    """Only of jobs that train."""
    if not len(phases.passes.backward) or memory.peak < 0:
        return PeakEvidence()
    return _Peak(memory, told, phases).evidence()


class _Peak:
    """The blocks in use at the peak."""

    def __init__(self, memory: TraceMemory, told: TraceAccounts, phases: StepPhases) -> None:
        self._memory, self._told, self._phases = memory, told, phases
        self._rows = memory.allocations.at(memory.peak)
        self._at_ns = int(memory.events.at_ns[memory.peak])
        self._account = told.account[self._rows]
        self._size_bytes = memory.allocations.size_bytes[self._rows]
        self._born = memory.allocations.born[self._rows]
        self._born_ns: I64 = np.where(self._born == BEFORE, -1, memory.events.at_ns[np.maximum(self._born, 0)])

    def evidence(self) -> PeakEvidence:
        is_earlier, is_left_over = self._earlier()
        sites = Counter[str]()
        for row in self._rows[is_left_over].tolist():
            sites[self._told.site[row]] += int(self._memory.allocations.size_bytes[row])
        phase = PHASES[int(self._phases.host.at(np.array([self._at_ns]))[0])]
        return PeakEvidence(
            phase=phase,
            stale_gradients_bytes=self._stale_gradients_bytes(phase),
            earlier_bytes={name: self._sum(is_earlier & self._is_of(name)) for name in _OF_A_STEP},
            left_over_bytes=self._sum(is_left_over),
            left_over_site=sites.most_common(1)[0][0] if sites else "",
        )

    def _sum(self, chosen: Mask) -> int:
        return int(self._size_bytes[chosen].sum())

    def _is_of(self, account: MemoryAccount) -> Mask:
        is_of: Mask = self._account == ACCOUNTS.index(account)
        return is_of

    def _stale_gradients_bytes(self, phase: Phase) -> int:
        """In a forward pass all that are there; in a backward pass those that were there when it began."""
        if phase not in (Phase.FORWARD, Phase.BACKWARD):
            return 0
        backward = self._phases.passes.backward
        begun = int(np.searchsorted(backward.start, self._at_ns, side="right")) - 1
        is_running = begun >= 0 and self._at_ns < backward.end[begun]
        since_ns = int(backward.start[begun]) if is_running else self._at_ns
        return self._sum((self._born_ns < since_ns) & self._is_of(MemoryAccount.GRADIENTS))

    def _earlier(self) -> tuple[Mask, Mask]:
        """What was made in steps before that of the peak, for these steps alone; and what of it went in this one."""
        steps = self._memory.timeline.steps
        number = int(np.searchsorted(steps.start_ns, self._at_ns, side="right")) - 1
        nothing = np.zeros(len(self._rows), bool)
        if number < 0:
            return nothing, nothing
        is_of_a_step = self._is_of(_OF_A_STEP[0]) | self._is_of(_OF_A_STEP[1])
        is_earlier: Mask = is_of_a_step & (self._born != BEFORE) & (self._born_ns < int(steps.start_ns[number]))
        last = self._memory.moment(steps.end_ns[number : number + 1])[0]
        return is_earlier, is_earlier & (self._memory.allocations.died[self._rows] <= last)
