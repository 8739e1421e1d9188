"""Lever `gc-freeze`: what exists is taken out of the garbage collector's sight, which then has little to look at."""

from __future__ import annotations

import gc

from redline.launch.inside.levers.gc_every import collect_now, is_scheduled
from redline.launch.inside.levers.lever import JobView, LeverEffect

_FEW = 10_000  # objects that a collection looks at in a millisecond or less


class FrozenGarbage:
    """For a whole process it is done when a model is first called: before that, little exists."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._frozen = 0

    def install(self, job: JobView) -> None:
        job.each_root(lambda root: self.switch(True) if self._is_on else None)

    def switch(self, on: bool) -> None:
        if on:
            collect_now()
            before = gc.get_freeze_count()
            gc.freeze()
            self._frozen = gc.get_freeze_count() - (0 if self._is_on else before)
        elif self._is_on:
            gc.unfreeze()
        self._is_on = on

    def took(self) -> LeverEffect:
        if not gc.isenabled() and not is_scheduled():
            return LeverEffect(False, "the script has switched the collector off")
        if self._frozen < _FEW:
            return LeverEffect(False, f"only {self._frozen:,} objects were there to freeze")
        return LeverEffect(True, f"{self._frozen:,} objects frozen")
