"""Which ranks do the same work: only those may be compared with each other.

A rank's work is the set of its operators with their shapes. Of it a signature is kept: for each of a few hash functions
the smallest value over the set. Two sets have as large a part in common as their signatures agree.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

SIGNATURE = 48  # hash functions: a share in common is known to some percent
_LEAST_COMMON = 0.85
_MOST_KERNELS = 1.15  # how many times as many kernels per step one of two alike ranks may have

_MULTIPLIERS = np.random.default_rng(7).integers(1, 2**32, SIGNATURE, np.uint64) | np.uint64(1)


def signature_of(work: Iterable[tuple[str, ...]]) -> tuple[int, ...]:
    """The smallest hash of any of these operators and shapes, for each hash function; 0 for nothing at all."""
    hashes = [int.from_bytes(blake2b("\0".join(one).encode(), digest_size=8).digest()) for one in set(work)]
    if not hashes:
        return (0,) * SIGNATURE
    mixed = np.array(hashes, np.uint64)[:, None] * _MULTIPLIERS[None, :]
    smallest = (mixed >> np.uint64(32)).min(axis=0)
    return tuple(smallest.tolist())


def kinds_of(signatures: Sequence[tuple[int, ...]], kernels_per_step: Sequence[float]) -> tuple[int, ...]:
    """A number for each rank; stages of a pipeline get different ones, replicas the same."""
    examples: list[tuple[tuple[int, ...], float]] = []
    kinds = []
    for signature, count in zip(signatures, kernels_per_step, strict=True):
        for number, (known, usual) in enumerate(examples):
            if _alike(signature, known) and max(count, usual) <= _MOST_KERNELS * max(min(count, usual), 1):
                kinds.append(number)
                break
        else:
            kinds.append(len(examples))
            examples.append((signature, count))
    return tuple(kinds)


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if one == other:
        return True
    return sum(a == b for a, b in zip(one, other, strict=True)) >= _LEAST_COMMON * SIGNATURE
