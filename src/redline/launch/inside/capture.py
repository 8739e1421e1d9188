"""Opens and closes windows of torch.profiler at the ends of steps, as the settings say, and never fails the job."""

from __future__ import annotations

import os
from _thread import get_ident
from time import perf_counter_ns

import torch

from redline.launch.board import (
    AFTER,
    BEFORE,
    BEGIN,
    CAPTURED_STEPS,
    CAPTURING,
    COST_NS,
    EXPORTING,
    FIRST_STEP,
    FROM_NS,
    LOST_ERROR,
    NUMBER,
    PEAK_BYTES,
    PHASE,
    REQUESTED,
    STALL_NS,
    STARTED_NS,
    STATE,
    STEPS,
    TO_NS,
    WARMING,
    WINDOWS_DONE,
    WRITTEN,
)
from redline.launch.inside.condition import Condition
from redline.launch.inside.notes import Notes
from redline.launch.inside.optimizers import Optimizers
from redline.launch.inside.recorder import Recorder
from redline.launch.inside.terminate import FlushOnTerm, is_the_scripts
from redline.launch.process import peak_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.launch.inside.place import Place

_NEVER = 1 << 62
_FAILURES_TO_STOP = 2  # in a row
_TRIES_BESIDE_ANOTHER = 3  # windows given up because the script profiles itself
_LONG_STEP_NS = 20_000_000_000  # of such steps one is enough
_USUAL_OF = 8  # the last steps before a window that say how long one usually takes
_SYNC_STEPS = 2  # ahead of the step in which a condition came true, so that all ranks begin at the same one


class Capture:
    """The windows of this process."""

    def __init__(
        self,
        place: Place,
        at_next_call: Callable[[Callable[[], None]], None],
        module: Callable[[], str | None],
    ) -> None:
        self._place = place
        self._at_next_call = at_next_call
        self._module = module  # the class of the largest one that was called
        self._due = 0  # steps at which something was to be done that has to wait
        self._settings = place.settings
        self._words = place.slot.words
        self._shared = place.board.shared
        self._home = get_ident()
        self.optimizers = Optimizers()
        self.notes = Notes(place)
        self._recorder = Recorder(place, self._give_way)
        self._on_term = FlushOnTerm(self._flush_now, place.settings.flush_s)
        self._condition = Condition(place.settings.when) if place.settings.when else None
        self._requests = 0
        self._failures = 0
        self._refusals = 0
        self._captured = 0
        self._last = 0  # the window whose end is not known yet
        self._until = 0
        self._lengths = [0] * _USUAL_OF
        self._slowed_ns = 0  # by which captured steps took longer than usual
        self._begin = self._first_begin()
        self._stopped = False

    def _first_begin(self) -> int:
        settings = self._settings
        wanted = settings.capture and bool(settings.folder) and not settings.when and settings.after >= 0
        return settings.after if wanted else _NEVER

    def is_capturing(self) -> bool:
        return self._words[PHASE] == CAPTURING

    def steps_restarted(self) -> None:
        """The steps are others than thought: a window that is open shows none of them."""
        if self._words[PHASE] in (WARMING, CAPTURING):
            self._guarded(self._close, "the steps turned out to be others")
        if not self._stopped and self._words[WINDOWS_DONE] <= 1:
            self._words[PHASE] = BEFORE
            self._begin = self._first_begin()

    def step_ended(self, steps: int, length_ns: int, at_work: bool) -> None:
        """The hot path: nothing but comparisons, unless something is to be done.

        While an optimizer is `at_work`, its own range is open, and perhaps a backward pass, in which no profiler may be
        started or stopped: what is to be done then waits for the next call of a module.
        """
        if self._due:
            self._act_due()
        phase = self._words[PHASE]
        is_open = phase in (WARMING, CAPTURING)
        if not is_open and steps > self._until + 1:  # the first step after a window holds what closing it cost
            self._lengths[steps % _USUAL_OF] = length_ns
            if self._condition is not None and self._condition.met(length_ns):
                self._ask_all(steps + _SYNC_STEPS)
        if self._shared[REQUESTED] != self._requests:
            self._requests = self._shared[REQUESTED]
            if not self._stopped and not is_open and self._settings.folder:
                self._begin = max(steps, self._shared[BEGIN])
        if (steps >= self._begin or is_open) and get_ident() == self._home:
            if at_work:
                self._due = steps
                self._at_next_call(self._act_due)
            else:
                self._guarded(self._act, steps)

    def _act_due(self) -> None:
        """What has waited, unless this is no time for it either."""
        steps, self._due = self._due, 0
        if steps and get_ident() == self._home and torch._C._current_graph_task_id() == -1:
            self._guarded(self._act, steps)

    def _ask_all(self, begin: int) -> None:
        self._shared[BEGIN] = begin
        self._shared[REQUESTED] += 1

    def _guarded(self, act: object, argument: object) -> None:
        """Do it; what goes wrong is noted. What the script raised meanwhile, by a signal handler, is the script's."""
        began_ns = perf_counter_ns()
        try:
            act(argument)  # type: ignore[operator]
        except BaseException as error:
            self._settle(error)
            if is_the_scripts(error):
                raise
        finally:
            self._words[COST_NS] += perf_counter_ns() - began_ns

    def _act(self, steps: int) -> None:
        phase = self._words[PHASE]
        if phase == WARMING:
            self._open(steps)
        elif phase == CAPTURING:
            if steps >= self._until:
                self._close("")
            elif self._recorder.is_too_large():
                self._close("it took more memory than --max-memory allows")
            else:
                self._recorder.next_step(steps + 1)
        elif self._may_begin(steps):
            self._warm_up(steps)

    def _may_begin(self, steps: int) -> bool:
        """Whether to open a window now. One that is left out has a number all the same, as it has on other ranks."""
        self._begin = _NEVER if not self._settings.every else steps + self._settings.every
        self._judge_the_last()
        if not self._stopped and not self._recorder.is_writing() and self._is_free(steps) and self._is_within_budget():
            return True
        self._words[WINDOWS_DONE] += 1
        return False

    def _is_free(self, steps: int) -> bool:
        if not self._recorder.is_taken():
            return True
        self._refusals += 1
        if self._refusals < _TRIES_BESIDE_ANOTHER:
            self._ask_all(steps + 10 * self._settings.steps)
        self.notes.add("profiler-taken", "the script has a profiler of its own on; a window was left out")
        return False

    def _is_within_budget(self) -> bool:
        """After the first window: would another one, as dear as those before, keep to the share of the time?"""
        if not self._captured:
            return True
        spent_ns = self._words[COST_NS] + self._slowed_ns
        elapsed_ns = perf_counter_ns() - self._words[STARTED_NS]
        if spent_ns * (self._captured + 1) / self._captured <= self._settings.budget * elapsed_ns:
            return True
        self.notes.add("budget", "a window was left out: it would cost more of the run than --budget allows")
        return False

    def _judge_the_last(self) -> None:
        """A window may also fail beside the job, where its trace is written."""
        window = self._window(self._last)
        if not self._last or window[STATE] == EXPORTING:
            return
        self._last = 0
        if window[STATE] == WRITTEN:
            self._failures = 0
        else:
            self._count_failure()

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= _FAILURES_TO_STOP and not self._stopped:
            self._stopped = True
            self._begin = _NEVER
            self.notes.add("stopped", f"no more windows after {_FAILURES_TO_STOP} failures in a row")

    def _warm_up(self, steps: int) -> None:
        self._words[PHASE] = WARMING
        self._recorder.warm_up()
        self.notes.gather_facts(self.optimizers.alive(), self._module())

    def _open(self, steps: int) -> None:
        window = self._place.slot.new_window(self._words[WINDOWS_DONE] + 1)
        window[FIRST_STEP] = steps + 1
        self._until = steps + (1 if self._usual_ns() > _LONG_STEP_NS else self._settings.steps)
        self._on_term.arm()
        self._recorder.start(steps + 1)
        self._words[PHASE] = CAPTURING
        window[FROM_NS] = perf_counter_ns()

    def _usual_ns(self) -> int:
        known = sorted(filter(None, self._lengths))
        return known[len(known) // 2] if known else 0

    def _window(self, number: int) -> memoryview[int]:
        return self._place.slot.window(number)

    def _close(self, reason: str) -> None:
        """Stop recording and hand what was recorded to a writer."""
        was = self._words[PHASE]
        self._words[PHASE] = AFTER
        if was == WARMING:
            self._on_term.disarm()
            self._recorder.abandon()
            return
        with self._on_term.saving():
            self._save(reason)

    def _save(self, reason: str) -> None:
        began_ns = perf_counter_ns()
        self._last = number = self._words[WINDOWS_DONE] + 1
        window = self._window(number)
        window[TO_NS] = began_ns
        window[STATE] = EXPORTING
        self._words[WINDOWS_DONE] = number
        captured = self._recorder.stop()
        window[CAPTURED_STEPS] = captured
        self._slowed_ns += max(0, began_ns - window[FROM_NS] - captured * self._usual_ns())
        if reason:
            self.notes.add("cut-short", f"window {number} was cut short: {reason}")
        self._recorder.write(number)
        self._captured += 1
        window[STALL_NS] = perf_counter_ns() - began_ns
        self._words[PEAK_BYTES] = peak_bytes()

    def _settle(self, error: BaseException) -> None:
        """Where memory has run out, even this may fail."""
        try:
            self._failed(error)
        except Exception as another:
            if is_the_scripts(another):
                raise

    def _failed(self, error: BaseException) -> None:
        was, self._words[PHASE] = self._words[PHASE], AFTER
        if was in (WARMING, CAPTURING):
            self._words[WINDOWS_DONE] += 1
        number = self._words[WINDOWS_DONE]
        window = self._window(number)
        if window[NUMBER] == number and window[STATE] in (0, EXPORTING) and not self._recorder.is_writing():
            window[STATE] = LOST_ERROR
        self._last = 0
        self.notes.add("failed", f"{type(error).__name__}: {error}"[:300])
        self._on_term.disarm()
        self._recorder.abandon()
        self._count_failure()
        if not self._stopped and not self._settings.every:
            self._ask_all(self._words[STEPS] + _SYNC_STEPS)  # once more

    def safely(self, watch: Callable[[], None]) -> None:
        """Do it; a bug in watching is noted, and the job goes on. What the script raises meanwhile is the script's."""
        try:
            watch()
        except Exception as error:
            if is_the_scripts(error):
                raise
            self.notes.add("failed", f"{type(error).__name__}: {error}"[:300])

    def _give_way(self) -> None:
        """The script starts a profiler of its own while ours runs: there must never be two."""
        if os.getpid() == self._place.pid and self._words[PHASE] in (WARMING, CAPTURING):
            self._guarded(self._close, "the script started a profiler of its own")

    def _flush_now(self) -> None:
        if self._words[PHASE] == CAPTURING:
            self._guarded(self._close, "the process was told to end")

    def finish(self) -> None:
        """The process ends."""
        self._act_due()
        if self._words[PHASE] in (WARMING, CAPTURING):
            self._guarded(self._close, "the process ended")
        self._words[PHASE] = AFTER
        self._guarded(lambda _: self.notes.leave(), None)

    def forget(self) -> None:
        """In a child that the script forked: nothing is ours to do there."""
        if os.getpid() != self._place.pid:
            self._begin = _NEVER
            self._on_term.forget()
            self._recorder.forget()
