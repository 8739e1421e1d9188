"""One figure at the top of a page."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What it is, how much, and what else to know."""

    name: str
    value: str
    detail: str
