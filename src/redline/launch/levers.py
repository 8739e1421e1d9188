"""Changes that Redline can switch in an unchanged script: their names, and what each may do to the numbers."""

from __future__ import annotations

from dataclasses import dataclass

from redline.errors import UsageError
from redline.numerics import Numerics


@dataclass(frozen=True, kw_only=True)
class LeverKind:
    """One kind of change."""

    name: str
    numerics: Numerics
    switchable: bool  # between two steps of one process; otherwise a process has it from its beginning or never
    values: str = ""  # how a value is written after `=`, for people; "" where there is none
    default: str = ""  # the value where none is given; "" where one must be given
    findings: tuple[str, ...] = ()  # whose fix it is


@dataclass(frozen=True)
class Lever:
    """A change as a user asks for it: `fused`, `workers=4`."""

    kind: LeverKind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name}={self.value}" if self.value else self.kind.name


_KINDS: tuple[LeverKind, ...] = (
    LeverKind(
        name="switch",
        numerics=Numerics.SEMANTICS,
        switchable=True,
        values="NAME",
    ),
)
KINDS = {kind.name: kind for kind in _KINDS}


def parse_lever(text: str) -> Lever:
    """Raises UsageError, which names the levers that there are."""
    name, _, value = text.partition("=")
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f"there is no lever {name!r}; there are: {', '.join(KINDS)}")
    if value and not kind.values:
        raise UsageError(f"lever {name} takes no value")
    value = value or kind.default
    if kind.values and not value:
        raise UsageError(f"lever {name} needs a value: {name}={kind.values}")
    return Lever(kind, value)
