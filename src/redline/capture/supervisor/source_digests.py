"""Digests of windows, made where the ranks ran: one process at a time, beside the job, and never in its way."""

from __future__ import annotations

import json
import resource
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redline.artifacts.masking import masked
from redline.capture import shared_state as at
from redline.capture.process import available_bytes
from redline.capture.run_record import DELETED, FAILED, MOST_LISTED, WRITTEN, DigestsRecord, RankDigest
from redline.capture.shared_state import ProcessSlot
from redline.capture.supervisor.kept_traces import DigestTroubles, KeptTraces, named, why_unfinished
from redline.capture.supervisor.rank_records import TraceKey, WindowTrace, trace_key, window_trace
from redline.capture.supervisor.side_process import SideProcess

_LOOK_S = 1.0  # from one look at the windows to the next
_QUIET_S = 900.0  # after this long without a digest, the process that digests is taken for one that hangs
_MOST_CPU_S = 900
_MOST_MEMORY_BYTES = 4 << 30
_LEAST_MEMORY_BYTES = 512 << 20  # where half of what the machine has left is less, digests wait
_MOST_TRACES = 16  # that one process digests, one after the other
_MOST_FAILURES = 8  # in a row, after which no more is tried


@dataclass(frozen=True, kw_only=True)
class DigestPlan:
    """The digests that were asked for."""

    keep_traces: int | None = None  # windows whose traces stay once they are digested; None for all
    wait_s: float = 30.0  # that digests may take when the job is over
    most_bytes: int = 2 << 30  # the size of all digests of this watcher


@dataclass(kw_only=True)
class _Running:
    """A process at work, and what it was given: traces to digest, then a window of which to choose ranks."""

    process: SideProcess
    traces: Sequence[WindowTrace]
    window: tuple[int, int] | None = None
    done: int = 0
    heard_s: float = field(default_factory=time.monotonic)
    late: bool = False
    answer: dict[str, str] | None = None


class SourceDigests:
    """Digests of the windows of the own ranks, and which of their traces were deleted since."""

    def __init__(
        self, folder: Path, plan: DigestPlan, program: Sequence[str], slots: Callable[[], Sequence[ProcessSlot]]
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._program = program
        self._slots = slots
        self._looked_s = 0.0
        self._running: _Running | None = None
        self._seen: set[TraceKey] = set()  # windows that were digested, or tried, of those still known
        self._waiting: set[TraceKey] = set()  # that are to be digested
        self._in_a_row = 0
        self._newest: deque[RankDigest] = deque(maxlen=MOST_LISTED)
        self._totals = DigestsRecord(keep_traces=plan.keep_traces, wait_s=plan.wait_s)
        self._troubles = DigestTroubles()
        self._kept = KeptTraces(folder, plan.keep_traces, slots, self._troubles)

    # --- what the watcher calls ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Now and then: start what is due, end what hangs."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        if self._running is not None:
            self._hear(self._running)
            if now_s - self._running.heard_s > _QUIET_S:
                self._running.late = True
                self._running.process.kill()
            return
        self._start_next()

    def ended(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        """A child of the watcher that is not the job has ended."""
        running = self._running
        if running is None or pid != running.process.pid:
            return
        self._hear(running)
        running.process.close()
        self._running = None
        self._account(usage)
        is_at_traces = running.done < len(running.traces)
        if running.window is not None and not is_at_traces:
            self._decide(running.window, running.answer)
        if is_at_traces:
            self._failed(
                running.traces[running.done], why_unfinished(status, _QUIET_S if running.late else None, _MOST_CPU_S)
            )
        self._start_next()

    def job_is_over(self) -> None:
        """Nothing comes after what is there."""
        self._looked_s = 0.0

    def is_done(self) -> bool:
        """Nothing is left to be digested, nor to be deleted."""
        return self._running is None and (self._has_stopped() or (not self._pending() and self._kept.due() is None))

    def _has_stopped(self) -> bool:
        """After so many failures, digesting does more harm than good."""
        return self._in_a_row >= _MOST_FAILURES

    def give_up(self) -> None:
        """End what is at work; what was not digested is told, and its trace stays."""
        running, self._running = self._running, None
        if running is not None:
            running.process.end(lambda status, usage: self._account(usage))
            self._hear(running)
            running.process.close()
            for trace in running.traces[running.done :]:
                self._remove_parts(trace)
                self._seen.discard(trace.key)
        left = self._pending()
        if left and not self._has_stopped():
            most = f"at most {self._plan.wait_s:g} s"
            self._troubles.add(f"{len(left)} not made in the time after the job ({most}); the traces are kept")
        self._kept.remove_emptied()

    def record(self) -> DigestsRecord:
        return replace(self._totals, newest=tuple(self._newest))

    def is_deleted(self, slot: ProcessSlot, window: memoryview[int]) -> bool:
        """The trace of this window was deleted once it was digested."""
        return trace_key(slot, window) in self._kept.deleted

    def notes(self) -> list[str]:
        """Sentences about them, the first of each kind."""
        told = self._troubles.notes()
        if self._has_stopped():
            told.append(f"digests: no more after {_MOST_FAILURES} failures in a row")
        if self._totals.size_bytes > self._plan.most_bytes:
            told.append("digests: no more, as they take as much of the disk as they may")
        if self._totals.missed:
            told.append(f"digests: traces that made room for newer ones before: {self._totals.missed}")
        return told

    # --- digesting ----------------------------------------------------------------------------------------------------

    def _pending(self) -> list[WindowTrace]:
        """Traces that are whole and have no digest yet, the oldest window first."""
        if self._has_stopped() or self._totals.size_bytes > self._plan.most_bytes:
            return []
        known = {trace_key(slot, window): (slot, window) for slot in self._slots() for window in slot.windows()}
        waiting = {key for key, (_, window) in known.items() if window[at.STATE] == at.WRITTEN} - self._seen
        self._add(missed=len(self._waiting - known.keys() - self._seen))
        self._seen &= known.keys()
        self._kept.deleted &= known.keys()
        self._waiting = waiting
        return sorted(
            (window_trace(*known[key]) for key in waiting), key=lambda trace: (trace.window, trace.digest.rank)
        )

    def _start_next(self) -> None:
        memory_bytes = min(_MOST_MEMORY_BYTES, available_bytes() // 2)
        if memory_bytes < _LEAST_MEMORY_BYTES or self._has_stopped():
            return
        pending = self._pending()
        batch = [trace for trace in pending if trace.window == pending[0].window][:_MOST_TRACES]
        due = self._kept.due()
        choice = None if due is None else self._kept.choice(due)
        if due is not None and choice is None:  # its only rank does not stand out
            self._decide(due, {})
            due = None
        if batch or due is not None:
            pairs = [[trace.key[0], trace.digest.path] for trace in batch]
            self._start({"digest": pairs, **(choice or {})}, batch, due, memory_bytes)

    def _start(
        self, task: dict[str, Any], traces: Sequence[WindowTrace], window: tuple[int, int] | None, memory_bytes: int
    ) -> None:
        text = json.dumps({"folder": str(self._folder), **task})
        try:
            process = SideProcess([*self._program, text], memory_bytes=memory_bytes, cpu_s=_MOST_CPU_S)
        except OSError as error:
            self._in_a_row += 1
            self._troubles.add(f"no process could be started ({error.strerror})")
            return
        self._running = _Running(process=process, traces=traces, window=window)

    def _hear(self, running: _Running) -> None:
        """Read what it has told since: a line for each trace, or one with ranks."""
        for line in running.process.lines():
            running.heard_s = time.monotonic()
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if "ranks" in told:
                running.answer = told["ranks"]
                self._add(choosing_cpu_ns=int(told["cpu_ns"]))
            elif running.done < len(running.traces):
                trace = running.traces[running.done]
                running.done += 1
                if "error" in told:
                    self._failed(trace, str(told["error"]))
                else:
                    self._digested(trace, told)

    def _digested(self, trace: WindowTrace, told: dict[str, Any]) -> None:
        self._in_a_row = 0
        self._seen.add(trace.key)
        trace.digest = replace(
            trace.digest,
            state=WRITTEN,
            why=str(told["damage"]),
            size_bytes=int(told["size_bytes"]),
            cpu_ns=int(told["cpu_ns"]),
            wall_ns=int(told["wall_ns"]),
        )
        self._add(written=1, size_bytes=trace.digest.size_bytes, wall_ns=trace.digest.wall_ns)
        self._newest.append(trace.digest)
        if trace.digest.why:
            self._troubles.add(f"{named(trace.digest)}: its trace is damaged ({trace.digest.why}), and is kept")
        else:
            self._kept.add(trace)

    def _failed(self, trace: WindowTrace, why: str) -> None:
        """The trace is kept, and not tried again."""
        why = masked(why.replace(f"{self._folder}/", ""))
        self._in_a_row += 1
        self._seen.add(trace.key)
        self._remove_parts(trace)
        self._add(failed=1)
        self._newest.append(replace(trace.digest, state=FAILED, why=why))
        self._troubles.add(f"{named(trace.digest)}: {why}; its trace is kept")

    def _remove_parts(self, trace: WindowTrace) -> None:
        target = self._folder / trace.digest.path
        for part in target.parent.glob(f"{target.name}.*.part"):
            with suppress(OSError):
                part.unlink()
        with suppress(OSError):  # others have theirs in it
            target.parent.rmdir()

    def _account(self, usage: resource.struct_rusage) -> None:
        self._add(processes=1, cpu_ns=round(1e9 * (usage.ru_utime + usage.ru_stime)))
        self._totals = replace(self._totals, peak_bytes=max(self._totals.peak_bytes, 1024 * usage.ru_maxrss))

    def _add(self, **amounts: int) -> None:
        sums: dict[str, Any] = {name: getattr(self._totals, name) + amount for name, amount in amounts.items()}
        self._totals = replace(self._totals, **sums)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def _decide(self, window: tuple[int, int], standing_out: dict[str, str] | None) -> None:
        for trace, what in self._kept.decide(window, standing_out):
            with suppress(ValueError):  # it is listed no more
                self._newest[self._newest.index(trace.digest)] = replace(trace.digest, trace=what)
            if what == DELETED:
                self._add(deleted=1, deleted_bytes=trace.digest.trace_bytes)
