"""A table of a report, as cells."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """One table: what it is called, its cells, and what is to be said under it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    empty: str  # what is said instead where there are no rows
