"""The door for files that are read back or given: each kind with limits of its size, depth, lengths and numbers.

    TRIAL = FileKind("a trial that Redline has kept", Trial, "measure it again", most_bytes=1 << 20)
    trial = TRIAL.read(path)

Anybody may have written such a file. What comes through is of the kind's type, and nothing in it is too large for what
is computed from it; anything else is an InputError of one line. Every kind has mutants: tests/fuzzing.
"""

from __future__ import annotations

import os
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from redline.artifacts import check_envelope, open_ordinary, read_whole
from redline.errors import InputError, first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T = TypeVar("T")
_MOST_DEEP = 64
_LONGEST_NAME, _LONGEST_TEXT = 1_000, 200_000  # characters: an argument of a command has at most 131,071
_LONGEST_LINE = 16 << 20
_MOST_LISTS = 2_000_000  # and objects: each takes tens of bytes, and may be written with two
_SHOWN = 80  # characters of a place
_SHOWN_NUMBER = 1e308  # whole numbers beyond are no float
MOST_NUMBER = 1e30  # what is computed from a few such is finite
ANY_NUMBER = (0.0, inf)


class FileKind(Generic[T]):
    """One kind of file, with the type of what it holds."""

    known: ClassVar[dict[str, FileKind[Any]]] = {}

    def __init__(
        self,
        what: str,
        shape: type[T],
        advice: str,
        *,
        most_bytes: int,
        envelope: tuple[str, int] | None = None,
        numbers: tuple[float, float] = (0.0, MOST_NUMBER),
        is_toml: bool = False,
        is_large: bool = False,
    ) -> None:
        """`envelope` is the kind that the file must say, and the newest schema that can be read; `numbers` are the
        least and the most that one may be, by its amount, unless it is 0. What is large is decoded straight into its
        type, whose limits are all that there are."""
        self.what, self._shape, self._advice, self._most_bytes = what, shape, advice, most_bytes
        self._envelope, self._numbers, self._is_toml = envelope, numbers, is_toml
        self._is_large = is_large
        self.known[what] = self

    def read(self, path: Path) -> T:
        return self.shaped(self.content(path), str(path))

    def content(self, path: Path) -> Any:
        """Dicts, lists, texts and numbers, all within the limits."""
        return self.content_of(self.whole(path), str(path))

    def whole(self, path: Path) -> bytes:
        return read_whole(path, self._most_bytes, self.what)

    def content_of(self, data: bytes, where: str) -> Any:
        """The same of a part of a file."""
        content = self._decoded(data, where)
        wrong = "" if self._is_large else _beyond(content, *self._numbers)
        if wrong:
            raise self._refused(where, wrong)
        if self._envelope is not None and isinstance(content, dict):
            check_envelope(content, *self._envelope, where=where)
        return content

    def shaped(self, content: Any, where: str) -> T:
        """The content as what it stands for."""
        import msgspec

        try:
            return msgspec.convert(content, self._shape)
        except ValueError as error:
            raise self._refused(where, first_line(error)) from error

    def _decoded(self, data: bytes, where: str) -> object:
        import msgspec  # `redline run` starts without it

        if data.count(b"[") + data.count(b"{") > _MOST_LISTS:
            raise self._refused(where, f"it has more than {_MOST_LISTS:,} lists and objects")
        try:
            if self._is_toml:
                import tomllib

                return tomllib.loads(data.decode())
            try:
                return msgspec.json.decode(data, type=self._shape if self._is_large else Any)
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:  # NaN and Infinity, which Python writes, or damage, of which it says more
                import json

                return json.loads(data)
        except RecursionError as error:
            raise self._refused(where, "it nests too deep") from error
        except ValueError as error:
            raise self._refused(where, first_line(error)) from error

    def _refused(self, where: str, reason: str) -> InputError:
        return InputError(f"{where} is damaged, or not {self.what}: {reason}; {self._advice}")


def _beyond(value: object, least: float, most: float, place: str = "", depth: int = 0) -> str:
    """The first number, text or depth that is beyond all reason, with its place; "" where there is none."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{place} is longer than {_LONGEST_TEXT:,} characters"
    if isinstance(value, int | float) and value != 0 and most < inf and not least <= abs(value) <= most:
        return (
            f"{place} is too large a number" if abs(value) > _SHOWN_NUMBER else f"{place} = {value:.3g} is out of range"
        )
    if not isinstance(value, dict | list):
        return ""
    if depth > _MOST_DEEP:
        return f"it nests deeper than {_MOST_DEEP} levels"
    members = value.items() if isinstance(value, dict) else (("[]", member) for member in value)
    for name, member in members:
        known = f"{place}{name}" if name == "[]" or not place else f"{place}.{name}"
        wrong = f"a name in it has {len(name):,} characters" if len(name) > _LONGEST_NAME else ""
        wrong = wrong or _beyond(member, least, most, known[-_SHOWN:], depth + 1)
        if wrong:
            return wrong
    return ""


def lines_of(path: Path) -> Iterator[bytes]:
    """Lines of a file that others append to: one that never ends is cut, and then is none that can be read."""
    with os.fdopen(open_ordinary(path), "rb") as file:
        while line := file.readline(_LONGEST_LINE):
            yield line
