"""A process of the job on trial: switches its levers at the ends of steps as planned, and ends after the last one."""

from __future__ import annotations

import multiprocessing
import os
import sys

from redline.launch.block_plan import BlockPlan
from redline.launch.inside.exception_origin import tolerated
from redline.launch.inside.trial.guarded_lever import GuardedLever
from redline.launch.process import peak_bytes
from redline.launch.shared_state import LEFT, PEAK_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.launch.inside.notes import Notes
    from redline.launch.inside.process_context import ProcessContext
    from redline.launch.inside.trial.lever import JobView
    from redline.launch.inside.trial.roots import RootModules


class JobTrial:
    """Made when torch has been imported."""

    def __init__(self, context: ProcessContext, notes: Notes, job: JobView, roots: RootModules) -> None:
        settings = context.settings
        self._context = context
        self._notes = notes
        self._roots = roots
        self._plan = BlockPlan.from_settings(settings.blocks) if settings.blocks else None
        self._last = settings.last_step
        self._is_on = False
        self._levers = [GuardedLever(text) for text in settings.levers]
        for lever in self._levers:
            lever.install(job)
        if self._plan is None:
            self._switch(True)
        else:
            self._switch(self._plan.is_changed(1))

    def step_ended(self, steps: int) -> None:
        """The step of this number has ended: the next one may run another way."""
        if self._last and steps >= self._last:
            self.tell()
            self._end()
        self._roots.step_ended(steps)
        if self._plan is not None:
            changed = self._plan.is_changed(steps + 1)
            if changed != self._is_on:
                if self._is_on:
                    self.tell()
                self._switch(changed)
        elif steps in (1, 2):
            self.tell()

    def tell(self) -> None:
        """What the levers did, for the one who watches."""
        effects = [lever.took() for lever in self._levers]
        self._notes.tell("levers", [[effect.took, effect.what] for effect in effects])

    def _switch(self, on: bool) -> None:
        self._is_on = on
        for lever in self._levers:
            lever.switch(on)

    def _end(self) -> None:
        """All steps that were asked for are done: the script does nothing more, neither evaluate nor save."""
        self._context.slot.words[LEFT] = 1
        with tolerated(BaseException):
            self._context.slot.words[PEAK_BYTES] = peak_bytes()
            for child in multiprocessing.active_children():  # workers of loaders would see it only after seconds
                if child.daemon:
                    child.kill()
        for stream in (sys.stdout, sys.stderr):
            with tolerated(BaseException):
                stream.flush()
        os._exit(0)
