"""Which ranks do the same work: only those may be compared with each other.

A rank's work is the set of its operators with their shapes. Of it a signature is kept: for each of a few hash functions
the smallest value over the set. Two sets have as large a part in common as their signatures agree.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b
from math import ceil

import numpy as np
import numpy.typing as npt

from redline.timeline.table import I64

Signature = npt.NDArray[np.uint32]

SIGNATURE = 48  # hash functions: a share in common is known to some percent
_LEAST_COMMON = ceil(0.85 * SIGNATURE)
_TELLING = SIGNATURE - _LEAST_COMMON + 1  # of so many values of a signature, any that is alike has one
_MOST_KERNELS = 1.15  # how many times as many kernels per step one of two alike ranks may have


def signature_of(work: Iterable[tuple[str, ...]]) -> Signature:
    """The smallest hash of any of these operators and shapes, for each hash function; 0 for nothing at all."""
    hashes = [int.from_bytes(blake2b("\0".join(piece).encode(), digest_size=8).digest()) for piece in set(work)]
    if not hashes:
        return np.zeros(SIGNATURE, np.uint32)
    mixed = np.array(hashes, np.uint64)[:, None] * _multipliers()[None, :]
    smallest: Signature = (mixed >> np.uint64(32)).min(axis=0).astype(np.uint32)
    return smallest


def read_signature(values: Sequence[int]) -> Signature:
    """Raises ValueError where these are not the values of a signature."""
    if len(values) != SIGNATURE or min(values) < 0 or max(values) >= 2**32:
        raise ValueError("a signature that is none")
    return np.array(values, np.uint32)


@cache
def _multipliers() -> npt.NDArray[np.uint64]:
    return np.random.default_rng(7).integers(1, 2**32, SIGNATURE, np.uint64) | np.uint64(1)


def kinds_of(signatures: Sequence[Signature], kernels_per_step: Sequence[float]) -> tuple[int, ...]:
    """A number for each rank; stages of a pipeline get different ones, replicas the same.

    A rank is of the first kind whose first rank it is like. Signatures that agree but for a few values have one in
    common of any few more, so a rank is compared only with those that share one of its rarest values.
    """
    values, counts = np.stack(signatures), np.array(kernels_per_step)
    firsts: list[int] = []  # of each kind the first rank
    having: dict[int, list[int]] = {}  # kinds by the rarest values of their first rank
    kinds = []
    for rank, rarest in enumerate(_rarest(values).tolist()):
        possible = sorted({kind for value in rarest for kind in having.get(value, ())})
        alike = _alike(values, counts, rank, [firsts[kind] for kind in possible])
        if alike.any():
            kinds.append(possible[int(alike.argmax())])
            continue
        kinds.append(len(firsts))
        for value in rarest:
            having.setdefault(value, []).append(len(firsts))
        firsts.append(rank)
    return tuple(kinds)


def _rarest(values: npt.NDArray[np.uint32]) -> I64:
    """Of each signature the values that fewest have at the same place, numbered over all places."""
    numbers = np.empty(values.shape, np.int64)
    rarity = np.empty(values.shape, np.int64)
    for place in range(SIGNATURE):
        _, number, times = np.unique(values[:, place], return_inverse=True, return_counts=True)
        numbers[:, place] = number * SIGNATURE + place
        rarity[:, place] = times[number]
    chosen = np.argsort(rarity, axis=1, kind="stable")[:, :_TELLING]  # of equally rare ones the first, for all ranks
    return np.take_along_axis(numbers, chosen, axis=1)


def _alike(
    values: npt.NDArray[np.uint32], counts: npt.NDArray[np.float64], rank: int, others: Sequence[int]
) -> npt.NDArray[np.bool_]:
    """Which of the others do the work of this rank, and about as often."""
    count, usual = counts[rank], counts[others]
    alike: npt.NDArray[np.bool_] = (values[others] == values[rank]).sum(axis=1) >= _LEAST_COMMON
    alike &= np.maximum(count, usual) <= _MOST_KERNELS * np.maximum(np.minimum(count, usual), 1)
    return alike
