"""Everything that is known of one rank while its trace is open: what rules look at to name causes."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from redline.hardware.machine import Machine
from redline.ledger.accounts import Account
from redline.ledger.rank.activity import DeviceActivity, Mask, activity_of
from redline.ledger.rank.backward_passes import Passes, passes_of
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.idle import Idle, idle_of
from redline.ledger.rank.kernels import RatedKernels, kernels_of
from redline.ledger.rank.ledger import Ledger, ledger_of
from redline.ledger.rank.phases import PhaseKind, Phases, phases_of
from redline.ledger.rank.waits import Waits, idle_after, waits_of
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema
from redline.trace.steps import ENGINE_ANCHOR
from redline.values import dataclass

if TYPE_CHECKING:
    from redline.model.served_model import ServedModel

Floats = npt.NDArray[np.float64]

LAUNCHING = (Account.HOST, Account.QUEUE)
"""Idle accounts that end when the host launches faster."""

PAUSE_NS = 5_000_000  # a host that launches nothing for longer is doing something else
LATENCY_NS = 100_000  # from a launch until its kernel runs, if nothing else is in the way


@dataclass(frozen=True, kw_only=True)
class RankAnalysis:
    """One rank, with its device time taken apart."""

    timeline: Timeline
    activity: DeviceActivity
    idle: Idle
    kernels: RatedKernels
    ledger: Ledger
    machine: Machine | None

    @property
    def on_gpu(self) -> bool:
        return self.activity.device == "gpu"

    @cached_property
    def in_steps(self) -> Intervals:
        return Intervals.union_of(self.ledger.start_ns, self.ledger.end_ns)

    @cached_property
    def operators_in_steps(self) -> I64:
        """Rows of operators that began inside steps, in time order."""
        spans = self.timeline.spans
        rows = spans.rows_of(Kind.OPERATOR)
        return rows[self.in_steps.contains(spans.start_ns[rows])]

    @cached_property
    def host_steps(self) -> tuple[I64, I64]:
        """When the host went through each step: earlier than the steps of a device that lags behind it."""
        if self.timeline.step_anchor == ENGINE_ANCHOR:
            return self.ledger.start_ns, self.ledger.end_ns
        steps, window_ns = self.timeline.steps, self.activity.window_ns
        return np.clip(steps.start_ns, *window_ns), np.clip(steps.end_ns, *window_ns)

    @cached_property
    def in_host_steps(self) -> Intervals:
        """For what the host did. What the device did is held against `in_steps`."""
        return Intervals.union_of(*self.host_steps)

    @property
    def steps_ns(self) -> int:
        """Length of all steps together."""
        return int((self.ledger.end_ns - self.ledger.start_ns).sum())

    def counted(self, values: I64) -> Floats:
        """For each step of the ledger what the host counted in it; of a counted step it may have a part."""
        steps, ledger = self.timeline.evidence.steps, self.ledger
        starts, ends = ledger.start_ns[:, None], ledger.end_ns[:, None]
        shared = np.minimum(ends, steps.end_ns) - np.maximum(starts, steps.begin_ns)
        parts = np.clip(shared, 0, None) / np.maximum(steps.end_ns - steps.begin_ns, 1)
        amounts: Floats = parts @ values.astype(np.float64)
        return amounts

    @cached_property
    def passes(self) -> Passes:
        return passes_of(self.timeline)

    @cached_property
    def phases(self) -> Phases:
        """Steps cut into input, forward, backward, optimizer and between."""
        return phases_of(self.timeline, self.activity, self.idle, self.passes, self.ledger)

    @cached_property
    def python_in_passes(self) -> Intervals:
        """Gaps between operators of forward and backward passes: where hooks and bookkeeping of autograd run."""
        host = PhaseKind.HOST
        return self.launch_gaps & (self.phases.time(Phase.FORWARD, host) | self.phases.time(Phase.BACKWARD, host))

    def idle_in(self, *accounts: Account) -> Intervals:
        """Idle time of these accounts."""
        time = Intervals.empty()
        for account in accounts:
            time |= self.idle.accounts[account]
        return time

    @cached_property
    def unowned(self) -> Intervals:
        """Queue time before the first recorded work of a stream: that stream may have been busy with what came before.

        An engine that launches ahead of its device is recorded so, step by step.
        """
        gaps, row = self.activity.idle, self.idle.next_row
        pieces = (self.activity.compute, self.activity.communication, self.activity.copies)
        work = np.sort(np.concatenate([piece.row for piece in pieces]))  # spans are in order of start
        _, first = np.unique(self.timeline.spans.lane[work], return_index=True)
        chosen = np.isin(row, work[first])
        return Intervals(gaps.start[chosen], gaps.end[chosen]) & self.idle.accounts[Account.QUEUE]

    @cached_property
    def launch_gaps(self) -> Intervals:
        """Idle time inside steps that ends when the host launches faster; long pauses of the host are not in it."""
        launching = self.idle.accounts[Account.HOST] - self.pauses
        return (self._before_last_work(launching | self._latency) & self.in_steps) - self.unowned

    @cached_property
    def pauses(self) -> Intervals:
        """Idle time in which the host did something else for so long that it was no matter of launching."""
        return self._before_last_work(_longer(self.idle.accounts[Account.HOST], PAUSE_NS)) & self.in_steps

    @cached_property
    def waiting_for_host(self) -> Intervals:
        """Idle time that would have been shorter had the host been earlier."""
        waiting = self.idle_in(Account.INPUT, Account.SYNC, Account.HOST) | self._latency
        return self._before_last_work(waiting) - self.unowned

    @cached_property
    def _latency(self) -> Intervals:
        """Queue time as launching takes it; what was queued for longer waited for something else."""
        queued = self.idle.accounts[Account.QUEUE]
        return queued - _longer(queued, LATENCY_NS)

    def _before_last_work(self, time: Intervals) -> Intervals:
        """Without what comes after the last recorded work: what the device then waited for is not recorded."""
        busy, (begin_ns, _) = self.activity.busy, self.activity.window_ns
        return time.clip(begin_ns, max(int(busy.end[-1]), begin_ns)) if len(busy) else Intervals.empty()

    @cached_property
    def waits(self) -> Waits:
        return waits_of(self.timeline)

    @cached_property
    def compiling(self) -> Intervals:
        """When torch.compile compiled."""
        rows = self.rows_named(schema.is_compilation, Kind.OPERATOR)
        return Intervals.union_of(self.timeline.spans.start_ns[rows], self.timeline.spans.end_ns[rows])

    def idle_after(self, held_up: Intervals) -> Intervals:
        """Time that holding up the host can have cost the device; on a CPU, host and device are the same.

        The host loses its lead at other waits only: those that held it up go with their cause.
        """
        if not self.on_gpu:
            return held_up
        drains_ns = self.waits.start_ns
        return idle_after(self.waiting_for_host, held_up, drains_ns[~held_up.contains(drains_ns)])

    def rows_named(self, is_meant: Callable[[str], bool], *kinds: Kind) -> I64:
        """Rows of these kinds whose name is meant, in time order; fast where there are none."""
        texts, spans = self.timeline.texts, self.timeline.spans
        names = [name for kind in kinds for name in self._names_of.get(kind, ()) if is_meant(texts[name])]
        if not names:
            return np.empty(0, np.int64)
        rows = spans.rows_of(*kinds)
        meant = np.zeros(len(texts), bool)
        meant[names] = True
        return rows[meant[spans.name[rows]]]

    @cached_property
    def _names_of(self) -> dict[int, list[int]]:
        """Distinct names of the spans of each kind."""
        spans, number = self.timeline.spans, len(self.timeline.texts)
        names_of_kind: dict[int, list[int]] = {}
        pairs = np.flatnonzero(np.bincount(spans.kind * np.int64(number) + spans.name))
        for kind, name in zip(*(part.tolist() for part in np.divmod(pairs, max(number, 1))), strict=True):
            names_of_kind.setdefault(kind, []).append(name)
        return names_of_kind

    def name(self, row: int) -> str:
        return self.timeline.text(int(self.timeline.spans.name[row]))

    def busy_with(self, rows: I64) -> Intervals:
        """Device time that these kernels, copies and sets own; exposed communication is not in it."""
        time = Intervals.empty()
        for owned in (self.activity.compute, self.activity.copies):
            time |= owned.where(np.isin(owned.row, rows))
        return time - self.activity.communicating

    def gaps_before(self, rows: I64) -> Intervals:
        """Idle time that ended when one of these pieces of device work began, as far as launching it took that time."""
        gaps = self.activity.idle
        chosen = np.isin(self.idle.next_row, rows) & (self.idle.next_row != NONE)
        return Intervals(gaps.start[chosen], gaps.end[chosen]) & self.idle_in(*LAUNCHING)

    def launched_under(self, spans: Mask) -> I64:
        """Rows of device work whose innermost annotation, or an operator around it, is one of these rows of spans."""
        work = self.timeline.device_work
        around = nearest_of(spans, self.timeline.spans.parent, work.operator)
        chosen: I64 = work.row[_flag(spans, work.annotation) | (around != NONE)].astype(np.int64)
        return chosen


def analysis_of(timeline: Timeline, machine: Machine | None, served: "ServedModel | None" = None) -> RankAnalysis:
    activity = activity_of(timeline)
    idle = idle_of(timeline, activity)
    kernels = kernels_of(timeline, activity, machine, served)
    ledger = ledger_of(timeline, activity, idle, kernels)
    return RankAnalysis(
        timeline=timeline,
        activity=activity,
        idle=idle,
        kernels=kernels,
        ledger=ledger,
        machine=machine,
    )


def _flag(chosen: Mask, rows: Column) -> Mask:
    flags: Mask = np.append(chosen, False)[rows]  # NONE is the last one
    return flags


def _longer(time: Intervals, limit_ns: int) -> Intervals:
    """Its stretches that are longer than this."""
    chosen = time.end - time.start > limit_ns
    return Intervals(time.start[chosen], time.end[chosen])
