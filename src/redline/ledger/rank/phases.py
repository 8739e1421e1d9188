"""Phases of steps: every nanosecond of every step in exactly one cell of phase and kind, adding up to the step exactly.

A second cut of the time that the ledger has by account. On a GPU, work of the device belongs to the phase in which it
was launched, and idle time to the phase of the host then; on a CPU, where the two are one, all time is of the phase
that the host was in.
"""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from redline.ledger.accounts import COMPUTE, IDLE, Account, place
from redline.ledger.rank.activity import DeviceActivity
from redline.ledger.rank.backward_passes import Passes
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.host_phases import PHASES, HostPhases, Phase, host_phases_of
from redline.ledger.rank.idle import Idle, launch_or_next
from redline.ledger.rank.ledger import Amounts, Ledger
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass


class PhaseKind(StrEnum):
    """What the time of a phase went to."""

    DEVICE = "device"  # it computes or copies
    HOST = "host"  # the device is idle, and the host works: Python, launches, loading in this process
    WAITING = "waiting"  # for other ranks, worker processes, a blocked host or queued work; or nothing says for what


KINDS = tuple(PhaseKind)
CELLS = len(PHASES) * len(KINDS)
PhaseSums = tuple[int, ...]  # nanoseconds by phase, and within each by kind; empty where phases are not known
Cells = Mapping[tuple[Phase, PhaseKind], Intervals]


@dataclass(frozen=True, kw_only=True)
class Phases:
    """When each cell was, and how much of it is in each step."""

    cells: Cells  # disjoint; together the window
    steps: Amounts  # [step, phase, kind]
    host: HostPhases

    @property
    def known(self) -> bool:
        """Whether the trace tells phases apart at all."""
        return self.host.known

    @property
    def total(self) -> Amounts:
        """Of all steps: [phase, kind]."""
        total: Amounts = self.steps.sum(axis=0)
        return total

    @property
    def sums(self) -> PhaseSums:
        return tuple(self.total.ravel().tolist()) if self.known else ()

    def time(self, phase: Phase, *kinds: PhaseKind) -> Intervals:
        """When the phase was, on the device; of these kinds only, if any are given."""
        when = Intervals.empty()
        for kind in kinds or KINDS:
            when |= self.cells[phase, kind]
        return when

    def of(self, phase: Phase, *kinds: PhaseKind) -> int:
        """Nanoseconds in all steps together."""
        columns = [KINDS.index(kind) for kind in kinds or KINDS]
        return int(self.total[PHASES.index(phase), columns].sum())

    def self_check(self, ledger: Ledger) -> None:
        """What phases promise, as assertions: the same steps as the ledger's, and the same device time in them."""
        _expect(
            self.steps.shape == (len(ledger.start_ns), len(PHASES), len(KINDS)), "one cell per step, phase and kind"
        )
        _expect(bool((self.steps >= 0).all()), "no cell is negative")
        lengths = ledger.end_ns - ledger.start_ns
        _expect(bool((self.steps.sum(axis=(1, 2)) == lengths).all()), "cells add up to each step")
        device = ledger.steps[:, [place(account) for account in (*COMPUTE, Account.COPY)]].sum(axis=1)
        same = self.steps[:, :, KINDS.index(PhaseKind.DEVICE)].sum(axis=1) == device
        _expect(bool(same.all()), "the device is as busy in phases as in accounts")


def phases_of(timeline: Timeline, activity: DeviceActivity, idle: Idle, passes: Passes, ledger: Ledger) -> Phases:
    host = host_phases_of(timeline, passes, activity.window_ns)
    waiting = idle.accounts[Account.INPUT] & _loading_in_workers(timeline)
    for account in IDLE:
        if account not in (Account.INPUT, Account.HOST):
            waiting |= idle.accounts[account]
    phase_of_work = _phases_of_work(timeline, host) if activity.device == "gpu" else None
    cells = {}
    for phase in PHASES:
        here = host.when(phase)
        busy, exposed = (
            _launched_in(phase, activity, phase_of_work)
            if phase_of_work is not None
            else (here & (activity.computing | activity.copying), here & activity.communicating)
        )
        still = here & activity.idle
        cells[phase, PhaseKind.DEVICE] = busy
        cells[phase, PhaseKind.HOST] = still - waiting
        cells[phase, PhaseKind.WAITING] = exposed | (still & waiting)
    steps = np.zeros((len(ledger.start_ns), len(PHASES), len(KINDS)), np.int64)
    for (phase, kind), time in cells.items():
        steps[:, PHASES.index(phase), KINDS.index(kind)] = time.overlap_with(ledger.start_ns, ledger.end_ns)
    phases = Phases(cells=cells, steps=steps, host=host)
    phases.self_check(ledger)
    return phases


def _phases_of_work(timeline: Timeline, host: HostPhases) -> I64:
    """For each row of spans that is device work the phase of its launch; of work without one, that of the host then."""
    spans, work = timeline.spans, timeline.device_work
    launch = launch_or_next(timeline)
    begun_ns = np.where(launch != NONE, spans.start_ns[launch], spans.start_ns[work.row])
    phase = np.full(len(spans), NONE, np.int64)
    phase[work.row] = host.at(begun_ns)
    return phase


def _launched_in(phase: Phase, activity: DeviceActivity, phase_of: I64) -> tuple[Intervals, Intervals]:
    """Time of the device in work that was launched in a phase: computing or copying, and only communicating."""

    def owned(work: Owned) -> Intervals:
        return work.where(phase_of[work.row] == PHASES.index(phase))

    copying = owned(activity.copies) & activity.copying
    return owned(activity.compute) | copying, owned(activity.communication) & activity.communicating


def _loading_in_workers(timeline: Timeline) -> Intervals:
    """When a data loader waited for processes of its own."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    rows = rows[matching(timeline, rows, schema.is_loader_with_workers)]
    return Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise of phases: {promise}")
