"""A process of the job on trial: switches its levers at the ends of steps as planned, and ends after the last one."""

from __future__ import annotations

import os

from redline.launch.block_plan import BlockPlan
from redline.launch.inside.trial.lever import JobView
from redline.launch.inside.trial.levers import make_lever

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.launch.inside.notes import Notes
    from redline.launch.inside.process_context import ProcessContext


class JobTrial:
    """Made when torch has been imported."""

    def __init__(self, context: ProcessContext, notes: Notes, job: JobView) -> None:
        settings = context.settings
        self._context = context
        self._notes = notes
        self._plan = BlockPlan.from_settings(settings.blocks) if settings.blocks else None
        self._last = settings.last_step
        self._is_on = False
        self._levers = [make_lever(text) for text in settings.levers]
        for lever in self._levers:
            lever.install(job)
        if self._plan is None:
            self._switch(True)
        else:
            self._switch(self._plan.is_changed(1))

    def step_ended(self, steps: int) -> None:
        """The step of this number has ended: the next one may run another way."""
        if self._plan is not None:
            changed = self._plan.is_changed(steps + 1)
            if changed != self._is_on:
                if self._is_on:
                    self.tell()
                self._switch(changed)
        elif steps in (1, 2):
            self.tell()
        if steps == self._last:
            self.tell()
            self._end()

    def tell(self) -> None:
        """What the levers did, for the one who watches."""
        effects = [lever.took() for lever in self._levers]
        self._notes.tell("levers", [[effect.took, effect.what] for effect in effects])

    def _switch(self, on: bool) -> None:
        self._is_on = on
        for lever in self._levers:
            lever.switch(on)

    @staticmethod
    def _end() -> None:
        """All steps that were asked for are done: the script does nothing more, neither evaluate nor save."""
        os._exit(0)
