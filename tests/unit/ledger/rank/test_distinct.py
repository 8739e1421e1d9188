"""Distinct rows of columns, against a set of tuples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank.distinct import distinct

SMALL = st.lists(st.tuples(*[st.integers(-2, 5)] * 3), max_size=30)
HUGE = st.lists(st.tuples(*[st.integers(-(2**61), 2**61)] * 3), max_size=10)


@given(SMALL | HUGE)
def test_every_row_is_found_again(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    found, which = distinct(*columns)
    keys = [tuple(key) for key in found.T.tolist()]
    assert sorted(set(rows)) == keys
    assert [keys[number] for number in which.tolist()] == rows
