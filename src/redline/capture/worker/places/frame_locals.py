"""Local names of a frame of the script, without keeping alive what they stand for."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

_OURS = 3  # references: of the frame, of the name here, and of the call that counts them


def locals_of(frame: FrameType) -> Mapping[str, object]:
    """Before Python 3.13, whoever asks a frame for them leaves a copy there, which would hold tensors of a step.

    That copy is emptied again, unless the script holds it: `locals()` gives the same one.
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED:  # those of a module or class are its own
        return frame.f_locals
    copy = frame.f_locals
    values = dict(copy)
    if type(copy) is dict and sys.getrefcount(copy) <= _OURS:
        copy.clear()
    return values
