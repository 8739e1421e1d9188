"""Put another text in place of each one in a value, however deep it stands; numbers and enums stay as they are."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, cast

import numpy as np

from redline.ledger.rank.packing import PackedRows

Value = TypeVar("Value")
OfText = Callable[[str], str]
OfField = Mapping[tuple[type, str], Callable[[Any], Any]]
"""By record and field, what is to stand there; it is given the record."""

_NUMBERS = (int, float, bool, "int", "float", "bool")


def with_every_text(value: Value, of_text: OfText, of_field: OfField) -> Value:
    """The value itself where nothing changes. Raises TypeError where it is not known what texts something has."""
    return cast(Value, _Walk(of_text, of_field).over(value))


class _Walk:
    def __init__(self, of_text: OfText, of_field: OfField) -> None:
        self._of_text = of_text
        self._of_field = of_field

    def over(self, value: Any) -> Any:
        kind = value.__class__
        if kind is str:
            return self._of_text(value)
        if kind is tuple or kind is list or kind is PackedRows:
            return self._sequence(value)
        if _is_record(kind):
            return self._record(value, kind)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, PurePath):
            return kind(self._of_text(str(value)))
        return _without_text(value)

    def _sequence(self, value: Any) -> Any:
        items = list(value)
        changed = [self.over(item) for item in items]
        if all(a is b for a, b in zip(items, changed, strict=True)):
            return value
        return changed if isinstance(value, list) else tuple(changed)

    def _mapping(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        items = [(self.over(key), self.over(member)) for key, member in value.items()]
        is_same = all(k is a and v is b for (k, v), (a, b) in zip(value.items(), items, strict=True))
        return value if is_same else dict(items)

    def _record(self, record: Any, kind: type) -> Any:
        changed = {}
        for name in _text_fields(kind):
            old = getattr(record, name)
            special = self._of_field.get((kind, name))
            new = special(record) if special is not None else self.over(old)
            if new is not old:
                changed[name] = new
        return replace(record, **changed) if changed else record


@cache
def _is_record(kind: type) -> bool:
    return is_dataclass(kind)


@cache
def _text_fields(record: type) -> tuple[str, ...]:
    """Those that may hold a text."""
    return tuple(field.name for field in fields(record) if field.type not in _NUMBERS)


def _without_text(value: Any) -> Any:
    if value is None or isinstance(value, int | float | Fraction | bytes | Enum | np.number | np.bool_):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    raise TypeError(f"which texts are in a {type(value).__name__} is not known")
