"""Levers on Python's garbage collector: `gc-every` and `gc-freeze`."""

from __future__ import annotations

import gc
import os
from functools import partial, wraps

from torch.optim.optimizer import register_optimizer_step_post_hook

from redline.capture.worker.counting.calls import is_optimizer_made, keep_from_compiler
from redline.capture.worker.levers.lever import JobLever, JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.levers import Lever

collect_now = gc.collect  # whatever becomes of the script's calls
_scheduled: set[int] = set()  # the levers that have switched the collector off
_FEW = 10_000  # objects that a collection looks at in a millisecond or less
_WARM_STEPS = 3  # after which the optimizer's state and what the compiler keeps are there too


def is_scheduled() -> bool:
    """The collector is off because garbage is collected every so many steps."""
    return bool(_scheduled)


class ScheduledGarbage(JobLever):
    """Lever `gc-every`: garbage is collected every so many steps, and not when enough objects were made.

    From the first call of a model on. Of the script's own calls of `gc.collect`, every so many really collect.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._every = int(lever.value)
        self._is_wanted = False
        self._has_model = False
        self._was_automatic = False
        self._first: int | None = None  # the optimizer whose steps are counted
        self._steps = 0
        self._calls = 0
        self._skipped = 0

    def install(self, job: JobView) -> None:
        def called(root: object) -> None:
            self._has_model = True
            self.switch(self._is_wanted)

        def stepped(optimizer: object, args: object, kwargs: object) -> None:
            if self._is_on:
                job.safely(partial(self._stepped, id(optimizer)))

        @wraps(gc.collect)
        def collect(*args: Any, **kwargs: Any) -> int:
            return self._asked(*args, **kwargs) if self._is_on else collect_now(*args, **kwargs)

        for function in (stepped, collect):
            keep_from_compiler(function)
        gc.collect = collect
        register_optimizer_step_post_hook(stepped)
        os.register_at_fork(after_in_child=self._in_child)
        job.each_root(called)

    def switch(self, on: bool) -> None:
        self._is_wanted = on
        if on and not self._is_on and self._has_model and is_optimizer_made():
            self._was_automatic = gc.isenabled() and gc.get_threshold()[0] > 0
            self._steps = self._calls = self._skipped = 0
            self._is_on = True
            _scheduled.add(id(self))
            gc.disable()
        elif self._is_on and not on:
            self._is_on = False
            _scheduled.discard(id(self))
            if self._was_automatic:
                gc.enable()

    def took(self) -> LeverEffect:
        if self._is_wanted and not self._is_on:
            return LeverEffect(False, "there is no optimizer, at whose steps to collect")
        if self._is_on and gc.isenabled():
            return LeverEffect(False, "the script has switched the collector on since")
        what = [f"collected every {self._every} steps"] if self._was_automatic else []
        what += [f"{self._skipped} of {self._calls} calls of gc.collect passed over"] if self._skipped else []
        return LeverEffect(bool(what), "; ".join(what) or "the script has switched the collector off")

    def _stepped(self, optimizer: int) -> None:
        self._first = self._first if self._first is not None else optimizer
        if optimizer == self._first:
            self._steps += 1
            if self._was_automatic and not self._calls and self._steps % self._every == 0:
                collect_now()

    def _asked(self, *args: Any, **kwargs: Any) -> int:
        self._calls += 1
        if self._calls % self._every == 0:
            return collect_now(*args, **kwargs)
        self._skipped += 1
        return 0

    def _in_child(self) -> None:
        """A worker of a loader has no steps at which to collect."""
        if self._is_on:
            self.switch(False)


class FrozenGarbage(JobLever):
    """Lever `gc-freeze`: what exists is taken out of the garbage collector's sight, which then has little to look at.

    For a whole process it is done when a model is first called, as little exists before, and again once warm.
    """

    _frozen = _steps_until_warm = 0

    def install(self, job: JobView) -> None:
        def called(root: object) -> None:
            if self._is_on:
                self._steps_until_warm = _WARM_STEPS
                self.switch(True)

        def stepped(optimizer: object, args: object, kwargs: object) -> None:
            if self._is_on and self._steps_until_warm:
                job.safely(self._stepped)

        keep_from_compiler(stepped)
        register_optimizer_step_post_hook(stepped)
        job.each_root(called)

    def switch(self, on: bool) -> None:
        if on:
            collect_now()
            before = gc.get_freeze_count()
            gc.freeze()
            self._frozen = gc.get_freeze_count() - (0 if self._is_on else before)
        elif self._is_on:
            gc.unfreeze()
        self._is_on = on

    def _stepped(self) -> None:
        self._steps_until_warm -= 1
        if not self._steps_until_warm:
            self.switch(True)

    def took(self) -> LeverEffect:
        if not gc.isenabled() and not is_scheduled():
            return LeverEffect(False, "the script has switched the collector off")
        if self._frozen < _FEW:
            return LeverEffect(False, f"only {self._frozen:,} objects were there to freeze")
        return LeverEffect(True, f"{self._frozen:,} objects frozen")
