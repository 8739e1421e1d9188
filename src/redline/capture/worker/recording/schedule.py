"""When windows open: at a step, at every so many, on a condition or on request, and within the budget."""

from __future__ import annotations

from time import perf_counter_ns

from redline.capture import shared_state as at
from redline.capture.worker.recording.condition import Condition, LoadCondition, is_of_load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.notes import Notes
    from redline.capture.worker.process_context import ProcessContext
    from redline.capture.worker.recording.recorder import Recorder

_NEVER = 1 << 62
_FAILURES_TO_STOP = 2  # in a row
_TRIES_BESIDE_ANOTHER = 3  # windows given up because the script profiles itself
_LONG_STEP_NS = 20_000_000_000  # of such steps one is enough
_USUAL_OF = 8  # the last steps before a window that say how long one usually takes
_SYNC_STEPS = 2  # ahead of the step in which a condition came true, so that all ranks begin at the same one


class WindowSchedule:
    """The windows of this process that are to come."""

    def __init__(self, context: ProcessContext, notes: Notes) -> None:
        self._settings = context.settings
        self._slot = context.slot
        self._words = context.slot.words
        self._job_words = context.shared.job_words
        self._notes = notes
        when = context.settings.when
        self._condition = Condition(when) if when and not is_of_load(when) else None
        self._load = LoadCondition(when) if is_of_load(when) else None
        self._requests = 0
        self._failures = 0
        self._refusals = 0
        self._stopped = False
        self._forget_windows()
        self._begin = self._first_begin()

    def _first_begin(self) -> int:
        settings = self._settings
        wanted = settings.capture and bool(settings.folder) and not settings.when and settings.after >= 0
        return settings.after if wanted else _NEVER

    def _forget_windows(self) -> None:
        self._saved = 0
        self._last = 0  # the window of which it is not known yet whether it was written
        self._until = 0  # the last step of the window that opened last
        self._lengths_ns = [0] * _USUAL_OF
        self._slowed_ns = 0  # by which captured steps took longer than usual

    def restart(self) -> None:
        """Steps are others than thought."""
        self._forget_windows()
        if not self._stopped:
            self._words[at.PHASE] = at.BEFORE
            self._begin = self._first_begin()

    def stop(self) -> None:
        """No window any more."""
        self._begin = _NEVER
        self._stopped = True

    def is_due(self, steps: int, length_ns: int, is_open: bool) -> bool:
        """A step ended; the hot path. Whether a window is to open now."""
        if not is_open and steps > self._until + 1:  # the first step after a window holds what closing it cost
            self._lengths_ns[steps % _USUAL_OF] = length_ns
            if self._condition is not None and self._condition.met(length_ns):
                self._ask_all(steps + _SYNC_STEPS)
        if self._job_words[at.REQUESTED] != self._requests:
            self._requests = self._job_words[at.REQUESTED]
            if not self._stopped and not is_open and self._settings.folder:
                self._begin = max(steps, self._job_words[at.BEGIN])
        return steps >= self._begin

    def load_told(self, running: int, waiting: int) -> None:
        """By the engine of a job that serves; its steps may be counted in other processes."""
        if self._load is not None and self._load.became_met(running, waiting):
            self._ask_all(0)

    def _ask_all(self, begin: int) -> None:
        """For a window of every rank."""
        self._job_words[at.BEGIN] = begin
        self._job_words[at.REQUESTED] += 1

    def may_begin(self, steps: int, recorder: Recorder) -> bool:
        """True if a window opens now. One that is left out has a number all the same, as it has on other ranks."""
        self._begin = _NEVER if not self._settings.every else steps + self._settings.every
        self._judge_the_last()
        if not self._stopped and not recorder.is_writing() and self._is_free(steps, recorder) and self._is_affordable():
            return True
        self._words[at.WINDOWS_DONE] += 1
        return False

    def _is_free(self, steps: int, recorder: Recorder) -> bool:
        if not recorder.is_taken():
            return True
        self._refusals += 1
        if self._refusals < _TRIES_BESIDE_ANOTHER:
            self._ask_all(steps + 10 * self._settings.steps)
        self._notes.add("profiler-taken", "the script was running its own profiler; a window was skipped")
        return False

    def _is_affordable(self) -> bool:
        """After the first window: would another one, as dear as those before, keep to the share of the time?"""
        if not self._saved:
            return True
        spent_ns = self._words[at.COST_NS] + self._slowed_ns
        elapsed_ns = perf_counter_ns() - self._words[at.STARTED_NS]
        if spent_ns * (self._saved + 1) / self._saved <= self._settings.budget * elapsed_ns:
            return True
        self._notes.add("budget", "a window was left out: it would cost more of the run than --budget allows")
        return False

    def opened(self, steps: int) -> None:
        """A window opened after that many steps."""
        self._until = steps + (1 if self._usual_ns() > _LONG_STEP_NS else self._settings.steps)

    def is_over(self, steps: int) -> bool:
        return steps >= self._until

    def saved(self, number: int, captured: int, took_ns: int) -> None:
        """A window of as many steps is being written, which may still fail beside the job."""
        self._last = number
        self._slowed_ns += max(0, took_ns - captured * self._usual_ns())
        self._saved += 1

    def _usual_ns(self) -> int:
        known = sorted(filter(None, self._lengths_ns))
        return known[len(known) // 2] if known else 0

    def _judge_the_last(self) -> None:
        state = self._slot.window(self._last)[at.STATE]
        if not self._last or state == at.EXPORTING:
            return
        self._last = 0
        if state == at.WRITTEN:
            self._failures = 0
        else:
            self._count_failure()

    def failed(self) -> None:
        """A window came to nothing: once more, or never again."""
        self._last = 0
        self._count_failure()
        if not self._stopped and not self._settings.every:
            self._ask_all(self._words[at.STEPS] + _SYNC_STEPS)

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= _FAILURES_TO_STOP and not self._stopped:
            self.stop()
            self._notes.add("stopped", f"no more windows after {_FAILURES_TO_STOP} failures in a row")
