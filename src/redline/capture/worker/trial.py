"""A process of the job on trial: switches its levers at the ends of steps as planned, and ends when it is told to."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

from redline.capture import shared_state as at
from redline.capture.block_plan import BlockPlan, warms_up_changed
from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.file_guard import FileGuard
from redline.capture.worker.levers.lever import GuardedLever
from redline.capture.worker.memory import most_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.levers.lever import JobView, RootModules
    from redline.capture.worker.notes import Notes
    from redline.capture.worker.process_context import ProcessContext


class JobTrial:
    """Made when torch has been imported."""

    def __init__(self, context: ProcessContext, notes: Notes, job: JobView, roots: RootModules) -> None:
        settings = context.settings
        self._told = context.shared.job_words
        self._words = context.slot.words
        self._notes = notes
        self._roots = roots
        self._seed = settings.block_seed
        self._plan: BlockPlan | None = None
        self._number = 0  # of the lever on trial, counted from 1; 0 for all of them together
        self._begun = 1  # the step with which its trial began
        self._is_on = False
        self._kept = [GuardedLever(text) for text in settings.kept_levers]
        self._levers = [GuardedLever(text) for text in settings.levers]
        for lever in (*self._kept, *self._levers):
            lever.install(job)
        for lever in self._kept:
            lever.switch(True)
        if not self._seed:
            self._switch(True)

    def step_ended(self, steps: int) -> None:
        """The step of this number has ended: the next one may run another way."""
        if 0 < self._told[at.LAST_STEP] <= steps:
            self._tell()
            self._end()
        self._roots.step_ended(steps)
        if self._seed:
            self._go_on(steps + 1)
        elif steps <= 2:
            self._tell()

    def _go_on(self, step: int) -> None:
        if self._told[at.LEVER_NUMBER] != self._number:
            self._switch(False)
            self._number, self._begun, self._plan = self._told[at.LEVER_NUMBER], self._told[at.LEVER_FROM], None
        if self._plan is None and self._told[at.BLOCK_STEPS]:
            self._plan = BlockPlan(
                seed=self._seed,
                first=self._told[at.FIRST_BLOCK],
                kept=self._told[at.BLOCK_STEPS],
                turns=self._told[at.BLOCK_TURNS],
                begun=self._begun,
            )
            self._words[at.PLANNED_AT] = step
        since = step - self._begun + 1
        changed = warms_up_changed(since) if self._plan is None else self._plan.is_changed(step)
        if changed != self._is_on:
            if self._is_on and (self._plan is None or step <= self._plan.first):
                self._tell()
            self._switch(changed)

    def _tell(self) -> None:
        """Tell the watcher what the levers did."""
        for name, levers in (("levers", self._levers), ("kept levers", self._kept)):
            effects = [lever.took() for lever in levers]
            self._notes.tell(name, [[effect.took, effect.what] for effect in effects])

    def _switch(self, on: bool) -> None:
        self._is_on = on
        for lever in self._levers[self._number - 1 : self._number] if self._number else self._levers:
            lever.switch(on)

    def _end(self) -> None:
        """All steps that were asked for are done: the script does nothing more, neither evaluate nor save."""
        self._words[at.LEFT] = 1
        with tolerated(BaseException):
            if FileGuard.here is not None:
                self._notes.tell("wrote elsewhere", FileGuard.here.written_elsewhere())
        with tolerated(BaseException):
            self._words[at.PEAK_BYTES] = most_bytes()
            _end_workers()
        for stream in (sys.stdout, sys.stderr):
            with tolerated(BaseException):
                stream.flush()
        os._exit(0)


def _end_workers() -> None:
    """Those of loaders would see only after seconds that the script is over."""
    # torch raises an error in the script when a worker is killed. From a thread, Python itself could not stop that.
    ctypes.CDLL(None).signal(signal.SIGCHLD, ctypes.c_void_p(int(signal.SIG_DFL)))
    for child in multiprocessing.active_children():
        if child.daemon:
            child.kill()
