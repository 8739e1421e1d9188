"""Column tables: frozen dataclasses whose fields are arrays of one length."""

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


def column(dtype: type[np.generic]) -> Any:
    """A field of a Table. Ids declared as 64 bits may be held in 32 where all of them fit."""
    return field(metadata={"dtype": np.dtype(dtype)})


def narrowed(array: Column) -> Column:
    """The same whole numbers in 32 bits where they fit: ids nearly always do, and there are many of them."""
    limits = np.iinfo(np.int32)
    if array.dtype == np.int64 and len(array) and limits.min <= array.min() and array.max() <= limits.max:
        return array.astype(np.int32)
    return array


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can spell but no encoding can write."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, kw_only=True)
class Table:
    """Arrays of one length, one per field."""

    def __len__(self) -> int:
        first: Column = getattr(self, fields(self)[0].name)
        return len(first)

    @classmethod
    def layout(cls) -> dict[str, np.dtype[Any]]:
        return {f.name: f.metadata["dtype"] for f in fields(cls)}

    @classmethod
    def empty(cls) -> Self:
        return cls(**{name: np.empty(0, dtype) for name, dtype in cls.layout().items()})

    def columns(self) -> dict[str, Column]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def take(self, rows: Column) -> Self:
        """The given rows (indices or a mask), in that order."""
        return type(self)(**{name: array[rows] for name, array in self.columns().items()})

    def self_check(self) -> None:
        """Every column is one-dimensional and as long as the first."""
        for name, array in self.columns().items():
            if array.ndim != 1 or len(array) != len(self):
                raise AssertionError(f"{type(self).__name__}.{name} has shape {array.shape}, not ({len(self)},)")
