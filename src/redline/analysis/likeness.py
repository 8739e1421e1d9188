"""Which ranks do the same work: only those may be compared with each other."""

from collections.abc import Sequence

from redline.analysis.digest import Digest

_MOST_ROWS = 16
_LEAST_COMMON = 0.7  # share of the most expensive operators and shapes that two ranks must have in common
_MOST_KERNELS = 1.15  # and how many times as many kernels per step one may have


def kinds_of(ranks: Sequence[Digest]) -> tuple[int, ...]:
    """A number for each rank; pipeline stages get different ones, replicas the same."""
    examples: list[tuple[frozenset[tuple[str, ...]], float]] = []
    kinds = []
    for rank in ranks:
        rows = frozenset(row.key for row in rank.kernels[:_MOST_ROWS])
        count = rank.facts.kernels / max(len(rank.ledger.start_ns), 1)
        for number, (known, usual) in enumerate(examples):
            if _alike(rows, known) and max(count, usual) <= _MOST_KERNELS * max(min(count, usual), 1):
                kinds.append(number)
                break
        else:
            kinds.append(len(examples))
            examples.append((rows, count))
    return tuple(kinds)


def _alike(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> bool:
    return len(one & other) >= _LEAST_COMMON * max(len(one | other), 1) or not (one or other)
