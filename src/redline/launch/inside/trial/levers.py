"""The levers that there are, by name."""

from __future__ import annotations

from redline.launch.inside import api
from redline.launch.inside.trial.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.launch.inside.trial.lever import JobLever


class ScriptSwitch:
    """`redline.switch("name")` in the script itself is true while it is on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def install(self, job: JobView) -> None:
        """Nothing to do."""

    def switch(self, on: bool) -> None:
        api.set_switch(self._name, on=on)

    def took(self) -> LeverEffect:
        asked = api.is_asked(self._name)
        return LeverEffect(asked, f"switch {self._name!r}" if asked else f"the script never asked for {self._name!r}")


_MADE: dict[str, Callable[[str], JobLever]] = {"switch": ScriptSwitch}


def make_lever(text: str) -> JobLever:
    """Of a lever as it is written, which was checked before the job began."""
    name, _, value = text.partition("=")
    return _MADE[name](value)
