"""From times by size to a latency and a rate, with the error on sizes that the fit had not seen; and the ideal ring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from redline.calibration.bench import estimate
from redline.calibration.calibration_record import CollectiveLaw, CollectivePoint, Declined
from redline.units import format_bytes

# --- buffers and bandwidths by definition -----------------------------------------------------------------------------
# What each collective is by definition: how large its buffers are, what is in them before, and what after.
#
# Sizes and bandwidths follow nccl-tests: the size is the larger of what a rank gives and what it gets; the bandwidth of
# the algorithm is size / time, and that of the bus is what a link has to carry for it, so that it can be compared with
# the hardware whatever the number of ranks. https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md


ELEMENT_BYTES = 4
_PERIOD = 1009  # a prime: parts that are swapped or shifted hardly ever look alike

Content = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One collective."""

    name: str
    bus_factor: Callable[[int], float]  # of so many ranks: bus bandwidth / bandwidth of the algorithm
    gives: str = "whole"  # whole, part (1 / ranks of it) or nothing
    takes: str = "same"  # whole, part or nothing; same where the result replaces what was given
    rooted: str = ""  # gives or takes, where only the first rank of the group does

    @property
    def is_divided(self) -> bool:
        return "part" in {self.gives, self.takes} or self.name == "all_to_all"


def _one(_ranks: int) -> float:
    return 1.0


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(name="broadcast", bus_factor=_one),
        Operation(name="reduce", bus_factor=_one),
        Operation(name="all_reduce", bus_factor=lambda ranks: 2 * (ranks - 1) / ranks),
        Operation(name="gather", bus_factor=_others, gives="part", takes="whole", rooted="takes"),
        Operation(name="all_gather", bus_factor=_others, gives="part", takes="whole"),
        Operation(name="scatter", bus_factor=_others, gives="whole", takes="part", rooted="gives"),
        Operation(name="reduce_scatter", bus_factor=_others, gives="whole", takes="part"),
        Operation(name="all_to_all", bus_factor=_others, gives="whole", takes="whole"),
        Operation(name="send_recv", bus_factor=_one, gives="whole", takes="whole"),
        Operation(name="barrier", bus_factor=_one, gives="nothing", takes="nothing"),
    )
}


def size_bytes(operation: str, ranks: int, about_bytes: int) -> int:
    """The size closest from above to what was asked for that is made of whole elements, and of equal parts."""
    if operation == "barrier":
        return 0
    unit = ELEMENT_BYTES * (ranks if OPERATIONS[operation].is_divided else 1)
    return max(1, -(-about_bytes // unit)) * unit


def lengths(operation: str, position: int, ranks: int, size: int) -> tuple[int, int]:
    """Elements of what the rank at this position of the group gives, and of what it gets beside it."""
    definition = OPERATIONS[operation]
    whole = size // ELEMENT_BYTES
    of = {"whole": whole, "part": whole // ranks, "nothing": 0, "same": 0}
    gives = of[definition.gives] if position == 0 or definition.rooted != "gives" else 0
    takes = of[definition.takes] if position == 0 or definition.rooted != "takes" else 0
    return gives, takes


def given(operation: str, position: int, ranks: int, size: int) -> Content:
    """What the rank gives: 10 times its position, counted up by one from element to element."""
    return _of_rank(position, 0, lengths(operation, position, ranks, size)[0])


def due(operation: str, position: int, ranks: int, size: int) -> Content | None:
    """What the rank must have afterwards; None where that is not defined. Sums are exact for up to 16 000 ranks."""
    whole = size // ELEMENT_BYTES
    part = whole // ranks
    own = position * part
    is_root = position == 0
    results: dict[str, Callable[[], Content | None]] = {
        "broadcast": lambda: _of_rank(0, 0, whole),
        "reduce": lambda: _sums(ranks, 0, whole) if is_root else None,
        "all_reduce": lambda: _sums(ranks, 0, whole),
        "gather": lambda: _of_all(ranks, 0, part) if is_root else _nothing(),
        "all_gather": lambda: _of_all(ranks, 0, part),
        "scatter": lambda: _of_rank(0, own, part),
        "reduce_scatter": lambda: _sums(ranks, own, part),
        "all_to_all": lambda: _of_all(ranks, own, part),
        "send_recv": lambda: _of_rank((position - 1) % ranks, 0, whole),
        "barrier": _nothing,
    }
    return results[operation]()


def _nothing() -> Content:
    return np.zeros(0, dtype=np.float32)


def _of_rank(rank: int, first: int, count: int) -> Content:
    period = (10 * rank + first + np.arange(_PERIOD)) % _PERIOD
    return np.resize(period.astype(np.float32), count)


def _of_all(ranks: int, first: int, count: int) -> Content:
    """The same part of what each rank gives, one after another."""
    return np.concatenate([_of_rank(rank, first, count) for rank in range(ranks)])


def _sums(ranks: int, first: int, count: int) -> Content:
    """What all ranks give, added up."""
    period = sum((10 * rank + first + np.arange(_PERIOD)) % _PERIOD for rank in range(ranks))
    return np.resize(np.asarray(period, dtype=np.float32), count)


Groups = tuple[tuple[int, ...], ...]


def levels(nodes: Sequence[int]) -> dict[str, Groups]:
    """The groups of each level, by the node of each rank. The groups of a level share no rank and work at once.

    Of several nodes: node (the ranks of one) and across (the first ranks of all nodes, the second ones, and so on). Of
    one node with four ranks or more: pair, and half where that is more than a pair. A level that is the world again is
    left out, and so is one whose groups would not be of one size.
    """
    world = len(nodes)
    groups_of_level: dict[str, Groups] = {"world": (tuple(range(world)),)}
    members = [[rank for rank in range(world) if nodes[rank] == node] for node in sorted(set(nodes))]
    if len(members) > 1:
        groups_of_level |= {"node": tuple(map(tuple, members)), "across": tuple(zip(*members, strict=False))}
    elif world >= 4:
        groups_of_level |= {"half": _runs(world, world // 2), "pair": _runs(world, 2)}
    return {
        name: groups for name, groups in groups_of_level.items() if _is_of_use(name, groups, groups_of_level, world)
    }


def _runs(world: int, length: int) -> Groups:
    """Neighbours; ranks that are left over are in none."""
    return tuple(tuple(range(first, first + length)) for first in range(0, world - length + 1, length))


def _is_of_use(name: str, groups: Groups, groups_of_level: dict[str, Groups], world: int) -> bool:
    sizes = {len(group) for group in groups}
    if name == "world":
        return True
    is_a_pair = name == "half" and groups == groups_of_level["pair"]
    return len(sizes) == 1 and 1 < min(sizes) < world and not is_a_pair


def level_of(first: int, second: int, nodes: Sequence[int]) -> str:
    """Tell whether two ranks are on one node."""
    return "node" if nodes[first] == nodes[second] else "across"


def sizes(most_bytes: int, *, step: int) -> list[int]:
    """From one element up to the most, each so many times the one before."""
    sizes_bytes = [4]
    while sizes_bytes[-1] * step <= most_bytes:
        sizes_bytes.append(sizes_bytes[-1] * step)
    return sizes_bytes


_FEW_CALLS, _FEW_CALLS_NS = 3, 100_000_000  # at least three calls, unless they take longer than this


@dataclass(frozen=True, kw_only=True)
class CollectiveCase:
    """One operation, in all groups of a level at once, at one size."""

    operation: str
    level: str
    ranks: int  # in each group
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class CollectiveTimings:
    cases: tuple[CollectiveCase, ...]
    samples_ns: tuple[tuple[float, ...], ...]  # of the slowest rank, by round and case
    correct: tuple[bool, ...]
    dropped: tuple[CollectiveCase, ...] = ()  # for which there was no time


def cases_of(levels: Mapping[str, Groups], sizes: Sequence[int]) -> list[CollectiveCase]:
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


def points_of(measured: CollectiveTimings) -> tuple[CollectivePoint, ...]:
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


def declined_of(measured: CollectiveTimings, call_limit_s: float) -> tuple[Declined, ...]:
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


FEWEST_SIZES = 4
_STEPS = 400  # of the search for the size at which latency and transfer take equally long


def fit(sizes_bytes: Sequence[float], times_ns: Sequence[float]) -> tuple[float, float]:
    """The latency in ns and the rate in bytes/s of time = latency + size / rate.

    The sum of the absolute errors of the logarithm is least: each size counts alike, and one that is off does not bend
    the law. With `half` = latency * rate, the size at which half of the time is latency, the time is
    latency * (1 + size / half): for every `half` the best latency is a median, and the best `half` is searched for.
    """
    sizes, logs = np.asarray(sizes_bytes, dtype=float), np.log(np.asarray(times_ns, dtype=float))
    halves = np.geomspace(sizes.min() / 10, sizes.max() * 10, _STEPS)
    shapes = np.log1p(sizes[None, :] / halves[:, None])
    latencies = np.median(logs[None, :] - shapes, axis=1)
    errors = np.abs(logs[None, :] - shapes - latencies[:, None]).sum(axis=1)
    best = int(np.argmin(errors))
    latency_ns = float(np.exp(latencies[best]))
    return latency_ns, float(halves[best]) / latency_ns * 1e9


def unseen_errors(sizes_bytes: Sequence[float], times_ns: Sequence[float]) -> list[float]:
    """Fitted on every other size, how far the law is off at those between: |predicted / measured - 1|."""
    errors = []
    for first in (0, 1):
        latency_ns, rate = fit(sizes_bytes[first::2], times_ns[first::2])
        unseen = zip(sizes_bytes[1 - first :: 2], times_ns[1 - first :: 2], strict=True)
        errors += [abs((latency_ns + size / rate * 1e9) / time - 1) for size, time in unseen]
    return errors


def laws(points: Sequence[CollectivePoint]) -> tuple[CollectiveLaw, ...]:
    """One for each operation and group of which enough sizes were measured.

    They are fitted to the fastest samples. On a CPU the threads of a rank compete with those of others for cores, so
    that some calls wait for the scheduler, many times as long as the call itself takes: chance, which has no law.
    """
    series: dict[tuple[str, str, int], list[CollectivePoint]] = {}
    for point in points:
        if point.size_bytes:
            series.setdefault((point.operation, point.group, point.ranks), []).append(point)
    return tuple(_law(of) for of in series.values() if len(of) >= FEWEST_SIZES)


def _law(points: Sequence[CollectivePoint]) -> CollectiveLaw:
    ordered = sorted(points, key=lambda point: point.size_bytes)
    sizes = [float(point.size_bytes) for point in ordered]
    times = [point.fastest_ns for point in ordered]
    latency_ns, rate = fit(sizes, times)
    errors = unseen_errors(sizes, times)
    return CollectiveLaw(
        operation=ordered[0].operation,
        group=ordered[0].group,
        ranks=ordered[0].ranks,
        latency_ns=latency_ns,
        bytes_per_s=rate,
        error_median=float(np.median(errors)),
        error_p90=float(np.quantile(errors, 0.9)),
        points=len(ordered),
    )


def ring_time_ns(
    operation: str, ranks: int, size_bytes: float, pair_latency_ns: float, pair_bytes_per_s: float
) -> float:
    """How long the operation takes by the textbook, where each rank sends one message and receives one at a time.

    With a message of m bytes taking a + m / b (the law of send_recv), S the size, n the ranks:

    - send_recv: one message, a + S / b.
    - all_gather, reduce_scatter: n - 1 times each rank hands the part that it has just received on to the next,
      (n - 1) (a + S / (n b)). all_reduce is both, one after the other, so twice that.
    - gather, scatter: the root's link carries n - 1 parts, one by one: the same.
    - all_to_all: in step i, each rank gives one part to the i-th rank after it: the same.
    - broadcast, reduce: k pieces follow each other along the ring; the last one has n - 1 links to go and leaves after
      k - 1 steps, (n - 2 + k) (a + S / (k b)). It is least, (sqrt((n - 2) a) + sqrt(S / b))^2, with
      k = sqrt((n - 2) S / (a b)) pieces; where that is less than one, the whole goes at once.
    - barrier: in step i, each rank tells the rank 2^i after it; all know of all after log2 n steps, rounded up.
    """
    latency, transfer = pair_latency_ns, size_bytes / pair_bytes_per_s * 1e9
    part_steps = (ranks - 1) * (latency + transfer / ranks)
    match operation:
        case "send_recv":
            return latency + transfer
        case "all_reduce":
            return 2 * part_steps
        case "broadcast" | "reduce":
            is_cut = (ranks - 2) * transfer > latency
            whole = (ranks - 1) * (latency + transfer)
            return (sqrt((ranks - 2) * latency) + sqrt(transfer)) ** 2 if is_cut else whole
        case "barrier":
            return ceil(log2(ranks)) * latency
        case _:
            return part_steps
