"""What the rest of watching and the watcher of an engine tell each other."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class EngineHooks(NamedTuple):
    """Of this process."""

    step_ended: Callable[[], None]
    load_told: Callable[[int, int], None]  # requests that run, and that wait, as a step begins
    cost_ns: Callable[[], int]  # that windows have taken so far
    no_timed_window: Callable[[], None]
    safely: Callable[[Callable[[], None]], None]
