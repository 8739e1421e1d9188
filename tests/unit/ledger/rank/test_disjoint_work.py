"""Overlapping work made disjoint, against a model that asks who owns each single nanosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank.disjoint_work import Owned
from redline.timeline.intervals import Intervals

Piece = tuple[int, int]  # start and duration
pieces_in_any_order = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=12)


def owned(pieces: list[Piece]) -> Owned:
    start_ns = np.array([start for start, _ in pieces], np.int64)
    end_ns = np.array([start + dur for start, dur in pieces], np.int64)
    return Owned.of(np.arange(len(pieces), dtype=np.int64), start_ns, end_ns)


def owner_at(pieces: list[Piece], at_ns: int) -> int | None:
    """Of the pieces that run at this instant the one that began first; of equals the first given."""
    running = [(start, row) for row, (start, dur) in enumerate(pieces) if start <= at_ns < start + dur]
    return min(running)[1] if running else None


@given(pieces_in_any_order)
def test_each_instant_belongs_to_the_earliest_that_runs(pieces: list[Piece]) -> None:
    found = owned(pieces)
    rows = zip(found.row.tolist(), found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    by_instant = [(at, row) for row, start, end in rows for at in range(start, end)]
    instants = range(60)
    assert sorted(by_instant) == [
        (at, owner) for at in instants for owner in (owner_at(pieces, at),) if owner is not None
    ]


@given(pieces_in_any_order)
def test_what_is_owned_is_what_is_covered(pieces: list[Piece]) -> None:
    found = owned(pieces)
    starts = np.array([start for start, _ in pieces], np.int64)
    lengths = np.array([dur for _, dur in pieces], np.int64)
    covered = Intervals.union_of(starts, starts + lengths)
    assert found.where() == covered
    assert int(found.dur_ns.sum()) == covered.length_ns
    assert sorted(found.row.tolist()) == list(range(len(pieces)))


def test_later_work_keeps_what_is_left_and_hidden_work_nothing() -> None:
    found = owned([(0, 8), (3, 7), (4, 2)])
    assert list(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)) == [(0, 8), (8, 10), (6, 6)]


def test_the_time_of_some_pieces() -> None:
    found = owned([(0, 8), (3, 7), (20, 5)])
    assert found.where(found.row != 0) == Intervals(np.array([8, 20]), np.array([10, 25]))
