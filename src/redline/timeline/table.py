"""Column tables: frozen dataclasses whose fields are arrays of one length."""

from collections.abc import Iterator
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


def column(dtype: type[np.generic], into: str = "") -> Any:
    """A field of a Table. Ids declared as 64 bits may be held in 32 where all of them fit.

    `into` names what its values are places of, where they are: texts, spans or lanes of a timeline.
    """
    return field(metadata={"dtype": np.dtype(dtype), "into": into})


_INT32 = np.iinfo(np.int32)
_LEAST, _MOST = int(_INT32.min), int(_INT32.max)


def narrowed(array: Column) -> Column:
    """The same whole numbers in 32 bits where they fit: ids nearly always do, and there are many of them."""
    if array.dtype == np.int64 and len(array) and _LEAST <= array.min() and array.max() <= _MOST:
        return array.astype(np.int32)
    return array


def numbers_in(ids: Column) -> list[int]:
    """The distinct ids of lanes or texts in a column, in order; none may be -1. Many times faster than np.unique."""
    return np.flatnonzero(np.bincount(ids)).tolist()


def grouped(keys: Column) -> Iterator[tuple[int, I64]]:
    """Each distinct key with its places, in order: one sort, where a mask for each key would look at all every time."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(keys)])
    yield from zip(ordered[first].tolist(), np.split(order, first[1:]) if len(first) else (), strict=True)


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can spell but no encoding can write."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(column,))
class Table:
    """Arrays of one length, one per field; a class that inherits it needs no decorator.

    Methods that dataclasses would write for each of many tables are written once: every command loads most of them.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **columns: Column) -> None:
        if columns.keys() != self.__dataclass_fields__.keys():
            raise TypeError(f"{type(self).__name__} has other columns than {', '.join(columns)}")
        vars(self).update(columns)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __len__(self) -> int:
        first: Column = getattr(self, next(iter(self.__dataclass_fields__)))
        return len(first)

    @classmethod
    def layout(cls) -> dict[str, np.dtype[Any]]:
        return {f.name: f.metadata["dtype"] for f in fields(cls)}

    @classmethod
    def places(cls) -> dict[str, str]:
        """The columns whose values are places in something, and in what."""
        return {f.name: f.metadata["into"] for f in fields(cls) if f.metadata["into"]}

    @classmethod
    def empty(cls) -> Self:
        return cls(**{name: np.empty(0, dtype) for name, dtype in cls.layout().items()})

    def columns(self) -> dict[str, Column]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}  # asked for millions of times

    def take(self, rows: Column | slice) -> Self:
        """The given rows (indices, a mask or a slice), in that order."""
        return type(self)(**{name: array[rows] for name, array in self.columns().items()})

    def within(self, name: str, least: int, end: int) -> bool:
        """Whether all values of a column are at least this and below the end."""
        values = self.columns()[name]
        return not len(values) or (least <= int(values.min()) and int(values.max()) < end)

    def self_check(self) -> None:
        """Every column is one-dimensional and as long as the first."""
        for name, array in self.columns().items():
            if array.ndim != 1 or len(array) != len(self):
                raise AssertionError(f"{type(self).__name__}.{name} has shape {array.shape}, not ({len(self)},)")
