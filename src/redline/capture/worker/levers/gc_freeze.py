"""Lever `gc-freeze`: what exists is taken out of the garbage collector's sight, which then has little to look at."""

from __future__ import annotations

import gc

from torch.optim.optimizer import register_optimizer_step_post_hook

from redline.capture.worker.compiler import keep_from_compiler
from redline.capture.worker.levers.gc_every import collect_now, is_scheduled
from redline.capture.worker.levers.lever import JobView, LeverEffect

_FEW = 10_000  # objects that a collection looks at in a millisecond or less
_WARM_STEPS = 3  # after which the optimizer's state and what the compiler keeps are there too


class FrozenGarbage:
    """For a whole process it is done when a model is first called, as little exists before, and again once warm."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._frozen = 0
        self._steps_until_warm = 0

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
