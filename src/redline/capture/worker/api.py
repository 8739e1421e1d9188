"""Functions that a script may call if it wants to: `redline.step()` and `redline.region("name")`.

Both do nothing, at next to no cost, where the script does not run under `redline run`.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _no_step() -> None:
    """Outside of `redline run`, and in what the script forks."""


def _first_step() -> None:
    """Before torch is there, or without it: steps are counted and timed, and none is captured."""
    from redline.capture.worker.counting.steps import StepCounter
    from redline.capture.worker.exception_origin import tolerated
    from redline.capture.worker.process_context import ProcessContext

    context = ProcessContext.here
    if context is None or not context.is_here():
        take(_no_step, _never)
    else:
        steps = StepCounter(context, lambda *_: None, lambda: None)

        def count() -> None:
            with tolerated(BaseException):
                steps.by_hand()

        take(count, _never)
    _step()


def _never() -> bool:
    return False


_step: Callable[[], None] = _first_step
_is_capturing: Callable[[], bool] = _never


def take(step: Callable[[], None], is_capturing: Callable[[], bool]) -> None:
    """From now on, steps that the script names are counted, and its regions recorded."""
    global _step, _is_capturing
    _step, _is_capturing = step, is_capturing


os.register_at_fork(after_in_child=lambda: take(_no_step, _never))


_switches: dict[str, bool] = {}
_asked: set[str] = set()


def set_switch(name: str, *, on: bool) -> None:
    """From now on `switch(name)` is this."""
    _switches[name] = on


def is_asked(name: str) -> bool:
    """The script has asked for this switch."""
    return name in _asked


def switch(name: str) -> bool:
    """True where the script is to take the other way: `if redline.switch("new path"): ...`

    False, except in every second block of steps under `redline compare --with switch="new path"`.
    """
    if not _switches:
        return False
    _asked.add(name)
    return _switches.get(name, False)


def step() -> None:
    """Say that a step of the job is over. Once called, nothing else ends a step."""
    _step()


def region(name: str) -> AbstractContextManager[object]:
    """Name a part of a step: `with redline.region("loss"): ...` shows in the trace while steps are captured."""
    if not _is_capturing():
        return nullcontext()
    from torch.profiler import record_function

    return record_function(str(name))
