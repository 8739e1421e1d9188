"""Lever `threads`: how many threads an operator of torch uses on the CPU."""

from __future__ import annotations

import torch

from redline.capture.worker.levers.lever import JobView, LeverEffect


class ThreadCount:
    """The script's own number is the one that there is when it is switched on, or when a model is first called."""

    def __init__(self, value: str) -> None:
        self._number = int(value)
        self._scripts = torch.get_num_threads()
        self._is_on = False
        self._has_changed = False

    def install(self, job: JobView) -> None:
        job.each_root(lambda root: self._set() if self._is_on else None)

    def switch(self, on: bool) -> None:
        was_on, self._is_on = self._is_on, on
        if on:
            self._set()
        elif was_on and torch.get_num_threads() == self._number:
            torch.set_num_threads(self._scripts)

    def took(self) -> LeverEffect:
        now = torch.get_num_threads()
        if self._is_on and now != self._number:
            return LeverEffect(False, f"the script has set {now} threads since")
        if not self._has_changed:
            return LeverEffect(False, f"there are {self._number} threads without it")
        return LeverEffect(True, f"{self._number} threads instead of {self._scripts}")

    def _set(self) -> None:
        now = torch.get_num_threads()
        if now != self._number:
            self._scripts = now
            torch.set_num_threads(self._number)
        self._has_changed = torch.get_num_threads() == self._number != self._scripts
