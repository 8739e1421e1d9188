"""Opens and closes windows of torch.profiler at the ends of steps, as scheduled, and never fails the job."""

from __future__ import annotations

from _thread import get_ident
from itertools import count
from time import perf_counter_ns, sleep
from weakref import ref

import torch

from redline.capture import shared_state as at
from redline.capture.process import has_memory_limit, peak_bytes
from redline.capture.shared_state import public_number
from redline.capture.worker.exception_origin import pass_on, tolerated
from redline.capture.worker.job_facts import JobFactsCollector
from redline.capture.worker.notes import NO_THREADS, Notes
from redline.capture.worker.recording.called_models import CalledModelsCollector
from redline.capture.worker.recording.host_evidence import (
    CollectiveNumberCollector,
    EvidenceRecorder,
    GcRunCollector,
    MachineShareCollector,
    StepCounterCollector,
    ThreadTimeCollector,
)
from redline.capture.worker.recording.recorder import NoRoom, Recorder
from redline.capture.worker.recording.schedule import WindowSchedule
from redline.capture.worker.recording.stack_samples import StackSampleCollector
from redline.capture.worker.recording.terminate import FlushOnTerm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch.optim.optimizer import Optimizer

    from redline.capture.worker.counting.calls import ModuleCalls, TrainingThread
    from redline.capture.worker.process_context import ProcessContext
    from redline.capture.worker.recording.held_tensors import HeldTensorsCollector
    from redline.capture.worker.recording.host_evidence import Collector

_LAST_STEP_NS = 2_000_000_000  # that a thread gets to come to the end of its step when the process ends


class Capture:
    """The windows of this process."""

    def __init__(
        self,
        context: ProcessContext,
        home: TrainingThread,
        calls: ModuleCalls,
    ) -> None:
        self._context = context
        self._calls = calls
        self._called: torch.nn.Module | None = None  # at whose call something is done that had to wait
        self._due = 0  # steps at which something was to be done that has to wait
        self._words = context.slot.words
        self._home = home
        self.optimizers = Optimizers()
        self.facts = JobFactsCollector(calls.outermost)
        self._held = _held_tensors(self.optimizers, calls) if context.settings.memory else None
        self.notes = Notes(context)
        self._models = CalledModelsCollector(calls, lambda: self._words[at.KIND] == at.BY_CALLS)
        self._schedule = WindowSchedule(context, self.notes)
        self._recorder = Recorder(context, self._give_way, EvidenceRecorder(self._collectors()))
        self._on_term = FlushOnTerm(self._flush_now, context.settings.flush_s)
        self._is_leaving = False  # the process ends
        self._timed_in = 0  # the thread that a window of fixed duration is open in
        self._restarts_later = False  # steps began meanwhile, in another thread

    def _collectors(self) -> tuple[Collector, ...]:
        """Collectors of the host evidence while a window is open; each gives one part.

        In this order at the beginning of a window, and backwards at its end: counters of steps are next to the steps.
        """
        collectors: list[Collector] = [
            self.facts,
            self._models,
            MachineShareCollector(self._context),
            ThreadTimeCollector(),
            GcRunCollector(),
            CollectiveNumberCollector(),
        ]
        if self._held is not None:
            collectors.append(self._held)
        if not self._context.settings.stacks:  # which record every call, those of a thread of ours too
            collectors.append(StackSampleCollector(self._context.is_here))
        return (*collectors, StepCounterCollector())

    def optimizer_stepped(self, optimizer: Optimizer) -> int:
        """Its number."""
        self.facts.optimizer_stepped(optimizer)
        if self._held is not None:
            self._held.optimizer_stepped(optimizer)
        return self.optimizers.stepped(optimizer)

    def is_capturing(self) -> bool:
        return self._words[at.PHASE] == at.CAPTURING

    def steps_restarted(self) -> None:
        """The first step, or steps that are others than thought: windows until now show none of them."""
        self.notes.learn_rank()
        if self._timed_in and self._timed_in != get_ident():
            self._restarts_later = True
            return
        if self._is_open():
            self._guarded(self._close, "")
        for window in self._context.slot.windows():
            if window[at.STATE] in (at.EXPORTING, at.WRITTEN):
                window[at.STATE] = at.DISOWNED
        self.notes.forget_model()
        self._schedule.restart()

    def step_ended(self, steps: int, length_ns: int, at_work: bool) -> None:
        """The hot path: nothing but comparisons, unless something is to be done.

        While an optimizer is `at_work`, its own range is open, and perhaps a backward pass, in which no profiler may be
        started or stopped: what is to be done then waits for the next call of a module.
        """
        if self._timed_in:
            return
        if self._due:
            self._act_due()
        is_open = self._is_open()
        if (self._schedule.is_due(steps, length_ns, is_open) or is_open) and get_ident() == self._home.thread:
            if at_work:
                self._due = steps
                self._calls.once(self._act_at_call)
            else:
                self._guarded(self._act, steps)

    def _act_at_call(self, module: torch.nn.Module) -> None:
        self._called = module
        try:
            self._act_due()
        finally:
            self._called = None

    def _act_due(self) -> None:
        """Do what has waited, unless this is no time for it either."""
        steps, self._due = self._due, 0
        if steps and get_ident() == self._home.thread and torch._C._current_graph_task_id() == -1:
            self._guarded(self._act, steps)

    def _guarded(self, act: object, argument: object) -> None:
        """Do it; what goes wrong is noted. What comes from outside meanwhile, such as a signal, is the script's."""
        began_ns = perf_counter_ns()
        try:
            act(argument)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001
            with tolerated(BaseException):  # where memory has run out, even this may fail
                self._failed(error)
            pass_on(error)
        finally:
            self._words[at.COST_NS] += perf_counter_ns() - began_ns

    def _act(self, steps: int) -> None:
        phase = self._words[at.PHASE]
        if self._is_leaving:
            self._close("the process ended")
        elif phase == at.WARMING:
            self._open(steps)
        elif phase == at.CAPTURING:
            if self._schedule.is_over(steps):
                self._close("")
            elif reason := self._recorder.room.why_over():
                self._close(reason)
            else:
                self._recorder.next_step(steps + 1)
        elif self._schedule.may_begin(steps, self._recorder):
            self._warm_up()

    def _warm_up(self) -> None:
        self._words[at.PHASE] = at.WARMING
        if has_memory_limit():
            self.notes.add("no-threads", NO_THREADS)
        self._recorder.warm_up()
        self._models.warm_up()
        self.notes.gather_facts(self.optimizers.alive(), self._calls.largest())

    def _open(self, steps: int) -> None:
        first_step = 0 if self._timed_in else steps + 1
        window = self._context.slot.new_window(self._next_number())
        window[at.FIRST_STEP] = first_step
        self._schedule.opened(steps)
        self._on_term.arm()
        self._recorder.start(first_step)
        self._note_modes()
        self._words[at.PHASE] = at.CAPTURING
        window[at.FROM_NS] = perf_counter_ns()

    def _note_modes(self) -> None:
        """Note the modes of the call of a module that is being made, else of the next one."""
        called = self._calls.outermost() if self._words[at.KIND] == at.BY_CALLS else self._called
        if called is not None:
            self.facts.called(called)
        else:
            self._calls.once(self.facts.called)

    def _next_number(self) -> int:
        return at.TIMED_WINDOW if self._timed_in else self._words[at.WINDOWS_DONE] + 1

    def _window(self, number: int) -> memoryview[int]:
        return self._context.slot.window(number)

    def _close(self, reason: str) -> None:
        """Stop recording and hand what was recorded to a writer."""
        was = self._words[at.PHASE]
        self._words[at.PHASE] = at.AFTER
        if was == at.WARMING:
            self._on_term.disarm()
            self._recorder.abandon()
        else:
            with self._on_term.saving():
                self._save(reason)
        self._timed_is_over()

    def _save(self, reason: str) -> None:
        began_ns = perf_counter_ns()
        number = self._next_number()
        window = self._window(number)
        window[at.TO_NS] = began_ns
        window[at.STATE] = at.EXPORTING
        if not self._timed_in:
            self._words[at.WINDOWS_DONE] = number
        captured = self._recorder.stop()
        window[at.CAPTURED_STEPS] = captured
        if reason:
            self.notes.add("cut-short", f"window {public_number(number)} was cut short: {reason}")
        self._recorder.write(number)
        self._schedule.saved(number, captured, began_ns - window[at.FROM_NS])
        window[at.STALL_NS] = perf_counter_ns() - began_ns
        self._words[at.PEAK_BYTES] = peak_bytes()

    def _failed(self, error: BaseException) -> None:
        was, self._words[at.PHASE] = self._words[at.PHASE], at.AFTER
        if was in (at.WARMING, at.CAPTURING) and not self._timed_in:
            self._words[at.WINDOWS_DONE] += 1
        number = at.TIMED_WINDOW if self._timed_in else self._words[at.WINDOWS_DONE]
        window = self._window(number)
        if window[at.NUMBER] == number and window[at.STATE] in (0, at.EXPORTING) and not self._recorder.is_writing():
            window[at.STATE] = at.LOST_ERROR
        self._on_term.disarm()
        self._recorder.abandon()
        if not self._timed_in:
            self._schedule.failed()
        if isinstance(error, NoRoom):
            self.notes.add("no-room", str(error))
        else:
            self.notes.add("failed", f"{type(error).__name__}: {error}"[:300])
        self._timed_is_over()

    def load_told(self, running: int, waiting: int) -> None:
        self._schedule.load_told(running, waiting)

    def safely(self, watch: Callable[[], None]) -> None:
        """Do it; a bug in watching is noted, and the job goes on. What comes from outside meanwhile is the script's."""
        try:
            watch()
        except BaseException as error:  # noqa: BLE001
            pass_on(error)
            with tolerated(BaseException):
                self.notes.add("failed", f"{type(error).__name__}: {error}"[:300])

    def _give_way(self) -> None:
        """The script starts a profiler of its own while ours runs: there must never be two."""
        if self._context.is_here() and self._is_open():
            self._guarded(self._close, "the script started its own profiler")

    def _flush_now(self) -> None:
        if self._words[at.PHASE] == at.CAPTURING:
            self._guarded(self._close, "the process was asked to end")

    def thread_ended(self) -> None:
        """The thread that trains ends: a profiler is stopped by the thread that started it."""
        if self._context.is_here() and self._is_open() and not self._timed_in:
            self._guarded(self._close, "the training thread ended")

    def finish(self) -> None:
        """The process ends."""
        self._act_due()
        self._schedule.stop()
        self._is_leaving = True
        if self._is_open():
            if get_ident() == (self._timed_in or self._home.thread):
                self._guarded(self._close, "the process ended")
            else:
                self._guarded(lambda _: self._wait_for_home(), None)
        self._words[at.PHASE] = at.AFTER
        self._guarded(lambda _: self.notes.leave(), None)

    # --- a window of fixed duration, where no steps were recognised; all of it in the main thread ---

    def warm_up_timed(self) -> None:
        if self._words[at.KIND] or self._words[at.PHASE] != at.BEFORE or self._is_leaving:
            return
        if self._recorder.is_taken():
            self.notes.add("profiler-taken", "the script has a profiler of its own on; a window was left out")
            return
        self._timed_in = get_ident()
        self._guarded(lambda _: self._warm_up_timed(), None)

    def _warm_up_timed(self) -> None:
        self.notes.learn_rank()
        self._warm_up()

    def open_timed(self) -> None:
        if self._timed_in and self._words[at.PHASE] == at.WARMING:
            self._guarded(self._open, 0)

    def close_timed(self) -> None:
        if self._timed_in and self._is_open():
            self._guarded(lambda _: self._close(self._recorder.room.why_over()), None)

    def is_timed(self) -> bool:
        return bool(self._timed_in)

    def is_timed_too_large(self) -> bool:
        return bool(self._recorder.room.why_over())

    def _timed_is_over(self) -> None:
        self._timed_in = 0
        if self._restarts_later:
            self._restarts_later = False
            self.steps_restarted()

    def _is_open(self) -> bool:
        return self._words[at.PHASE] in (at.WARMING, at.CAPTURING)

    def _wait_for_home(self) -> None:
        """The thread that trains goes on while the process ends; only it may stop its profiler, at its next step."""
        until_ns = perf_counter_ns() + _LAST_STEP_NS
        while self._is_open() and perf_counter_ns() < until_ns:
            sleep(0.01)

    def forget(self) -> None:
        """In a child that the script forked: nothing is ours to do there."""
        with tolerated(BaseException):
            self._schedule.stop()
            self._on_term.forget()
            self._recorder.forget()


def _held_tensors(optimizers: Optimizers, calls: ModuleCalls) -> HeldTensorsCollector:
    """Imported only by jobs whose memory is recorded."""
    from redline.capture.worker.recording.held_tensors import HeldTensorsCollector

    return HeldTensorsCollector(optimizers.alive, calls.outermost)


class Optimizers:
    """The optimizers that have stepped in this process, each with a number of its own.

    None of them is kept alive: each may hold as much memory as the model. Nor is one compared or hashed.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Optimizer], int]] = {}
        self._numbers = count(1)
        self._stepped: set[int] = set()  # since somebody asked who did not

    def stepped(self, optimizer: Optimizer) -> int:
        """Its number."""
        key = id(optimizer)
        known = self._known.get(key)
        if known is None or known[0]() is not optimizer:
            known = self._known[key] = ref(optimizer, lambda _: self._forget(key)), next(self._numbers)
        self._stepped.add(key)
        return known[1]

    def skipped(self, keys: Iterable[int]) -> list[int]:
        """Numbers of the optimizers with these ids that did not step since this was asked before.

        0 for one that never stepped, unless another one did: it may have another one do its work.
        """
        missing = [key for key in keys if key not in self._stepped and (key in self._known or not self._stepped)]
        self._stepped.clear()
        return [self._known[key][1] if key in self._known else 0 for key in missing]

    def _forget(self, key: int) -> None:
        self._known.pop(key, None)
        self._stepped.discard(key)

    def alive(self) -> Iterator[Optimizer]:
        yield from filter(None, [known() for known, _ in self._known.values()])
