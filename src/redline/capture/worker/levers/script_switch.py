"""Lever `switch`: `redline.switch("name")` in the script itself is true while it is on."""

from __future__ import annotations

from redline.capture.worker import api
from redline.capture.worker.levers.lever import JobView, LeverEffect


class ScriptSwitch:
    """What it changes is the script's own affair."""

    def __init__(self, name: str) -> None:
        self._name = name

    def install(self, job: JobView) -> None:
        """Nothing to do."""

    def switch(self, on: bool) -> None:
        api.set_switch(self._name, on=on)

    def took(self) -> LeverEffect:
        asked = api.is_asked(self._name)
        return LeverEffect(asked, f"switch {self._name!r}" if asked else f"the script never asked for {self._name!r}")
