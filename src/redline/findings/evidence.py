"""Evidence of a finding: sentences with their values, the grade of its fix, and what that does to numbers."""

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from redline.values import dataclass

_LINE = re.compile(r"\.py(:|\()\d+")


class Grade(StrEnum):
    """The evidence behind a fix."""

    MEASURED = "measured"  # gains were measured and published
    DOCUMENTED = "documented"  # by those who wrote what it changes
    HYPOTHESIS = "hypothesis"


class Bearing(StrEnum):
    """The effect of a sentence on the claim of its finding."""

    SUPPORTS = "supports"
    WEAKENS = "weakens"  # the claim holds, but less may be gained than it says; never left out
    VOIDS = "voids"  # the page of the finding says to ignore it in such a trace; no verdict rests on it


@dataclass(frozen=True)
class Evidence:
    """One sentence with its values. The end of a value's name says its unit: _ns, _share, _bytes, _bytes_per_s.

    The sentence is a constant and the first argument, so that those who collect texts to translate find it.
    """

    message: str
    values: Mapping[str, float | str] = field(default_factory=dict)
    bearing: Bearing = Bearing.SUPPORTS

    @property
    def place(self) -> str:
        """The function and line that it names, as a profiler or a sample of the stack does; "" where it names none."""
        texts = (value for value in self.values.values() if isinstance(value, str))
        return next((text for text in texts if _LINE.search(text)), "")
