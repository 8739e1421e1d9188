"""Changes the arguments with which the script makes objects of a class."""

from __future__ import annotations

from functools import wraps
from inspect import signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Change = Callable[[object, dict[str, Any]], None]  # given the object to be made and its arguments by name

_changes: dict[type, list[tuple[int, Change]]] = {}


def change_arguments(kind: type[Any], place: int, change: Change) -> None:
    """Changes are made in the order of their places; subclasses that call the constructor have them too."""
    if kind not in _changes:
        _changes[kind] = []
        _wrap(kind, _changes[kind])
    _changes[kind].append((place, change))
    _changes[kind].sort(key=lambda known: known[0])


def _wrap(kind: type[Any], changes: list[tuple[int, Change]]) -> None:
    made = kind.__init__
    known = signature(made)

    @wraps(made)
    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            bound = known.bind(self, *args, **kwargs)
        except TypeError:  # the script has it wrong, and shall hear it from the class itself
            made(self, *args, **kwargs)
            return
        for _, change in changes:
            change(self, bound.arguments)
        made(*bound.args, **bound.kwargs)

    kind.__init__ = __init__
