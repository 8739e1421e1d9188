"""Tells when a function of a class is about to be called, without a frame of ours under the call."""

from __future__ import annotations

import sys

from redline.capture.worker.exception_origin import pass_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    ReadTold = Callable[[Any, FrameType], None]  # the object, and the frame that reads the function


class ToldRead:
    """Stands in a class for a function of it. Whoever reads it from an object gets the function, and that is told."""

    def __init__(self, plain: Any, told: ReadTold) -> None:
        self._plain = plain
        self._told = told

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is not None:
            try:
                self._told(instance, sys._getframe(1))
            except BaseException as error:  # noqa: BLE001 (the engine goes on, and this is not recorded)
                pass_on(error)
        return self._plain.__get__(instance, owner)


def tell_reads(owner: type, name: str, told: ReadTold) -> bool:
    """Whether the class, or one that it inherits from, has such a function."""
    for one in owner.__mro__:
        plain = one.__dict__.get(name)
        if isinstance(plain, ToldRead):
            return True
        if plain is not None:
            setattr(one, name, ToldRead(plain, told))
            return True
    return False
