"""Puts hooks on torch that tell when a step ends, and takes care that none of them is ever seen.

No hook puts a frame of ours under the user's code: tracebacks, warnings and compiled code stay what they are. Where
torch has no hook, an attribute that torch reads at the right moment becomes a descriptor that notes the time.
"""

from __future__ import annotations

import atexit
import os
from _thread import get_ident
from functools import partial

import torch
from torch.amp.grad_scaler import GradScaler, OptState
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from redline.capture.shared_state import AFTER, BY_OPTIMIZER, COST_NS, KIND, PHASE
from redline.capture.worker import api, memory
from redline.capture.worker.counting.calls import ModuleCalls, TrainingThread, keep_from_compiler, watch_generation
from redline.capture.worker.counting.steps import StepCounter
from redline.capture.worker.engines.engine_log import EngineHooks
from redline.capture.worker.engines.watch_vllm import watch_vllm
from redline.capture.worker.exception_origin import NO_ROOM
from redline.capture.worker.process_context import ProcessContext
from redline.capture.worker.recording.capture import Capture
from redline.capture.worker.recording.timed_window import TimedWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from redline.capture.worker.job_places import JobPlaces
    from redline.capture.worker.trial import JobTrial


def watch(context: ProcessContext) -> None:
    """Count steps from now on, and capture those that were asked for."""
    home = TrainingThread()
    calls = ModuleCalls(home)
    capture = Capture(context, home, calls)
    timed = TimedWindow(context, capture)

    def restarted() -> None:
        timed.cancel()
        capture.steps_restarted()

    if context.settings.numbers:
        from redline.capture.worker.numbers.job_numbers import record_numbers

        record_numbers(context)
    if context.settings.memory:
        capture.safely(memory.record_history)
    trial, places = _trial(context, capture, calls)
    if context.settings.is_file_guarded:
        from redline.capture.worker.file_guard import guard_torch

        guard_torch(torch, partial(capture.notes.tell, "wrote"))

    def step_ended(steps: int, length_ns: int, at_work: bool) -> None:
        capture.step_ended(steps, length_ns, at_work)
        if places is not None:
            places.step_ended(steps)
        if trial is not None:
            trial.step_ended(steps)

    steps = StepCounter(context, step_ended, restarted)
    calls.look_for_steps(steps, capture.safely)
    _watch_optimizers(context, home, steps, capture, calls)
    _watch_scalers(context, steps, capture, calls)
    _watch_loaders(steps, home, capture)
    api.take(partial(capture.safely, steps.by_hand), capture.is_capturing)
    atexit.register(_leave, context, steps, capture, timed)
    os.register_at_fork(after_in_child=capture.forget)
    os.register_at_fork(after_in_child=home.leave)
    timed.wait()
    told = EngineHooks(
        step_ended=partial(capture.safely, steps.by_hand),
        load_told=capture.load_told,
        cost_ns=lambda: context.slot.words[COST_NS],
        no_timed_window=timed.cancel,
        safely=capture.safely,
    )
    watch_vllm(context.settings.folder, told)
    watch_generation(calls.token_ended, capture.safely)


def _trial(context: ProcessContext, capture: Capture, calls: ModuleCalls) -> tuple[JobTrial | None, JobPlaces | None]:
    """None where nothing is changed; places only where they are asked for."""
    if not context.settings.on_trial and not context.settings.kept_levers:
        return None, None
    from redline.capture.worker.levers.lever import CallChains, JobView, RootModules
    from redline.capture.worker.trial import JobTrial

    roots = RootModules(calls.at_outermost)
    job = JobView(
        outermost=calls.outermost,
        optimizers=capture.optimizers.alive,
        each_root=roots.each,
        safely=capture.safely,
        chains=CallChains(),
    )
    places = None
    if context.settings.places:
        from redline.capture.worker.job_places import JobPlaces

        places = JobPlaces(context, capture.notes.tell, capture.safely)
        capture.safely(partial(places.install, job))
    return JobTrial(context, capture.notes, job, roots), places


def _leave(context: ProcessContext, steps: StepCounter, capture: Capture, timed: TimedWindow) -> None:
    if context.is_here():
        timed.cancel()
        capture.safely(steps.finish)
        capture.finish()
        context.slot.words[PHASE] = AFTER


def _watch_optimizers(
    context: ProcessContext, home: TrainingThread, steps: StepCounter, capture: Capture, calls: ModuleCalls
) -> None:
    words = context.slot.words

    def thread_ended() -> None:
        if context.is_here():  # a forked process loses the other threads of its parent
            capture.safely(steps.finish)
            capture.thread_ended()

    def count(optimizer: Optimizer) -> None:
        in_backward = torch._C._current_graph_task_id() != -1  # perhaps in a thread of the backward pass
        is_first = words[KIND] != BY_OPTIMIZER
        if is_first:
            calls.stop()
        if (is_first or not home.thread) and not in_backward:
            home.move(thread_ended)
        steps.optimizer_stepped(capture.optimizer_stepped(optimizer), in_backward=in_backward)

    def stepped(optimizer: Optimizer, args: object, kwargs: object) -> None:
        try:
            if context.is_here():
                capture.safely(partial(count, optimizer))
        except NO_ROOM:
            pass

    keep_from_compiler(stepped)
    register_optimizer_step_post_hook(stepped)


def _watch_scalers(context: ProcessContext, steps: StepCounter, capture: Capture, calls: ModuleCalls) -> None:
    """A step that a scaler of gradients skips, because some were infinite, is a step of the job.

    At the end of each update of its scale, and at no other time, a scaler forgets what it knows of its optimizers.
    """

    def count(before: dict[int, dict[str, object]]) -> None:
        asked = [key for key, known in before.items() if known["stage"] is OptState.STEPPED]
        skipped = capture.optimizers.skipped(asked)
        if skipped and context.slot.words[KIND] != BY_OPTIMIZER:
            calls.stop()
        if 0 in skipped:
            steps.optimizers_skipped()
        else:
            for number in skipped:
                steps.optimizer_stepped(number)

    def updated(before: dict[int, dict[str, object]], after: object) -> None:
        if context.is_here():
            capture.safely(partial(count, before))

    GradScaler._per_optimizer_states = _Noted("_per_optimizer_states", None, updated)  # type: ignore[assignment]


class _Noted:
    """An attribute that tells when it is read or replaced, and is otherwise what it was."""

    def __init__(
        self, name: str, read: Callable[[object], None] | None, replaced: Callable[[Any, Any], None] | None
    ) -> None:
        self._name = name
        self._read = read
        self._replaced = replaced

    def __get__(self, owner: object, kind: type | None = None) -> object:
        if owner is None:
            return self
        try:
            if self._read is not None:
                self._read(owner)
        except NO_ROOM:
            pass
        try:
            return owner.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, owner: object, value: object) -> None:
        before = owner.__dict__.get(self._name)
        owner.__dict__[self._name] = value
        try:
            if self._replaced is not None and before is not None:
                self._replaced(before, value)
        except NO_ROOM:
            pass


def _watch_loaders(steps: StepCounter, home: TrainingThread, capture: Capture) -> None:
    """A loader reads the name of its profiler range when it is asked for a batch, and counts the batch afterwards."""

    def asked(iterator: object) -> None:
        if get_ident() == home.thread:
            capture.safely(steps.loader_asked)
            capture.facts.loader_asked(iterator)

    def counted(before: int, batches: int) -> None:
        if batches and get_ident() == home.thread:
            capture.safely(steps.loader_gave)

    _BaseDataLoaderIter._profile_name = _Noted("_profile_name", asked, None)  # type: ignore[assignment]
    _BaseDataLoaderIter._num_yielded = _Noted("_num_yielded", None, counted)  # type: ignore[assignment]
