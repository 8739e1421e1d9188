"""Names of the folders of a run: its windows, and inside which restart of the job they lie."""

import re

_WINDOW = re.compile(r"window-([0-9]+)")
_RESTART = re.compile(r"restart-([0-9]+)")


def window_number(name: str) -> int | None:
    """Of a folder of this name; None where it is no window."""
    return _number(_WINDOW, name)


def restart_number(name: str) -> int | None:
    """Of a folder of this name; None where it is no restart. Before the first, there is no such folder."""
    return _number(_RESTART, name)


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.fullmatch(name)
    return int(found[1]) if found else None
