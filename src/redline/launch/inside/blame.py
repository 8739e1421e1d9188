"""Whose exception it is that was raised while our code ran: ours, or the script's."""

from __future__ import annotations

import sys

_OURS = {"redline", "torch"}


def is_the_scripts(error: BaseException) -> bool:
    """Whether the script means it: its signal handlers, and other threads, may raise anywhere, our code included."""
    if not isinstance(error, Exception) or _is_foreign(type(error).__module__):
        return True
    one: BaseException | None = error
    while one is not None:  # Python's own library may have put another in its place
        at = one.__traceback__
        while at is not None:
            if _is_foreign(at.tb_frame.f_globals.get("__name__", "")):
                return True
            at = at.tb_next
        one = one.__context__
    return False


def _is_foreign(module: str) -> bool:
    outermost = module.partition(".")[0]
    return outermost not in _OURS and outermost not in sys.stdlib_module_names
