"""From the times of all ranks to points: which cases there are, and how long each took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redline.calibration.calibration_record import CollectivePoint, Declined
from redline.calibration.collectives.levels import Groups
from redline.calibration.collectives.textbook import OPERATIONS, size_bytes
from redline.calibration.statistics import estimate
from redline.units import format_bytes

_FEW_CALLS, _FEW_CALLS_NS = 3, 100_000_000  # at least three calls, unless they take longer than this


@dataclass(frozen=True, kw_only=True)
class CollectiveCase:
    """One operation, in all groups of a level at once, at one size."""

    operation: str
    level: str
    ranks: int
    """In each group."""
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class CollectiveTimings:
    """What the harness found."""

    cases: tuple[CollectiveCase, ...]
    samples_ns: tuple[tuple[float, ...], ...]
    """Of the slowest rank, by round and case."""
    correct: tuple[bool, ...]
    dropped: tuple[CollectiveCase, ...] = ()
    """For which there was no time."""


def cases(levels: Mapping[str, Groups], sizes: Sequence[int]) -> list[CollectiveCase]:
    """Everything that is to be measured; small sizes that an operation has to round up to the same are one."""
    distinct = {
        CollectiveCase(
            operation=operation,
            level=level,
            ranks=len(groups[0]),
            size_bytes=size_bytes(operation, len(groups[0]), about),
        ): None
        for level, groups in levels.items()
        for about in sizes
        for operation in OPERATIONS
    }
    return list(distinct)


def repeats(once_ns: float, sample_ns: float) -> int:
    """How many calls make a sample: few, so that of many samples some are undisturbed, but enough to hide the start."""
    few = min(_FEW_CALLS, int(_FEW_CALLS_NS / max(1.0, once_ns)))
    return max(1, few, round(sample_ns / max(1.0, once_ns)))


def points(measured: CollectiveTimings) -> tuple[CollectivePoint, ...]:
    series = zip(*measured.samples_ns, strict=True)
    unordered = [
        _point(case, samples, is_right)
        for case, samples, is_right in zip(measured.cases, series, measured.correct, strict=True)
    ]
    order = list(OPERATIONS)
    return tuple(
        sorted(unordered, key=lambda point: (-point.ranks, point.group, order.index(point.operation), point.size_bytes))
    )


def _point(case: CollectiveCase, samples: Sequence[float], is_right: bool) -> CollectivePoint:
    middle = len(samples) // 2
    time_ns = estimate([samples[:middle], samples[middle:]])  # two halves: what drifts meanwhile widens the interval
    rate = case.size_bytes / time_ns.value * 1e9
    return CollectivePoint(
        operation=case.operation,
        group=case.level,
        ranks=case.ranks,
        size_bytes=case.size_bytes,
        time_ns=time_ns,
        fastest_ns=min(samples),
        algorithm_bytes_per_s=rate,
        bus_bytes_per_s=rate * OPERATIONS[case.operation].bus_factor(case.ranks),
        correct=is_right,
    )


def declined(measured: CollectiveTimings, call_limit_s: float) -> tuple[Declined, ...]:
    """Sizes that were dropped, once for each operation and level."""
    least: dict[tuple[str, str], int] = {}
    for case in measured.dropped:
        key = (case.operation, case.level)
        least[key] = min(case.size_bytes, least.get(key, case.size_bytes))
    why = f"one call takes longer than {call_limit_s:g} s"
    return tuple(
        Declined(what=f"{operation} ({level}) of {format_bytes(size)} and more", why=why)
        for (operation, level), size in least.items()
    )
