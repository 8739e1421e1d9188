"""Which ranks do the same work, against comparing each with every kind; and that few of many kinds are compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank import comparable_ranks
from redline.ledger.rank.comparable_ranks import SIGNATURE, Signature, kinds_of, read_signature


def by_comparing_all(signatures: list[Signature], counts: list[float]) -> tuple[int, ...]:
    firsts: list[int] = []
    kinds = []
    for rank, count in enumerate(counts):
        alike = (
            kind
            for kind, first in enumerate(firsts)
            if (signatures[rank] == signatures[first]).sum() >= 0.85 * SIGNATURE
            and max(count, counts[first]) <= 1.15 * max(min(count, counts[first]), 1)
        )
        kinds.append(next(alike, len(firsts)))
        if kinds[-1] == len(firsts):
            firsts.append(rank)
    return tuple(kinds)


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([2, 2**32]))
def test_a_rank_is_of_the_first_kind_that_it_is_like(seed: int, ranks: int, values: int) -> None:
    random = np.random.default_rng(seed)
    signatures = random.integers(0, 2**32, (3, SIGNATURE)).astype(np.uint32)[random.integers(0, 3, ranks)]
    for one in signatures:
        changed = random.choice(SIGNATURE, random.integers(0, 12), replace=False)
        one[changed] = random.integers(0, values, len(changed))
    counts = random.choice([0.0, 1, 10, 11, 11.5, 12, 13, 100], ranks).tolist()
    assert kinds_of(list(signatures), counts) == by_comparing_all(list(signatures), counts)


@pytest.mark.parametrize("common", [0, 26])
def test_a_rank_is_compared_with_few_of_many_kinds(common: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether ranks have nothing in common or half of their work. All with all would be eight million."""
    compared: list[int] = []
    really = comparable_ranks._alike

    def counting(values: Any, counts: Any, rank: int, others: Sequence[int]) -> Any:
        compared.append(len(others))
        return really(values, counts, rank, others)

    monkeypatch.setattr(comparable_ranks, "_alike", counting)
    signatures = np.random.default_rng(1).integers(0, 2**32, (4000, SIGNATURE)).astype(np.uint32)
    signatures[:, :common] = 7
    assert len(set(kinds_of(list(signatures), [100.0] * len(signatures)))) == len(signatures)
    assert len(compared) == len(signatures)
    assert sum(compared) <= len(signatures)


@pytest.mark.parametrize("values", [(1,) * (SIGNATURE - 1), (-1,) * SIGNATURE, (2**32,) * SIGNATURE, ()])
def test_what_is_no_signature_is_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="signature"):
        read_signature(values)
