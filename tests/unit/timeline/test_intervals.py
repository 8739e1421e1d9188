"""The interval algebra agrees with sets of instants, and obeys the laws of sets."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.timeline.intervals import Intervals, Times

LO, HI = -12, 30
# Real timestamps are nanoseconds since 1970: beyond what float64 holds exactly.
EPOCH = 1_760_000_000_000_000_001

moments = st.integers(LO, HI)
pairs = st.tuples(moments, moments).map(lambda pair: (min(pair), max(pair)))
pair_lists = st.lists(pairs, max_size=8)
exact = settings(deadline=None, max_examples=200)


def times(values: Iterable[int]) -> Times:
    return np.array([EPOCH + value for value in values], np.int64)


def columns(spans: list[tuple[int, int]]) -> tuple[Times, Times]:
    return times(start for start, _ in spans), times(end for _, end in spans)


def built(spans: list[tuple[int, int]]) -> Intervals:
    intervals = Intervals.union_of(*columns(spans))
    intervals.self_check()
    return intervals


def instants(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {moment for start, end in spans for moment in range(start, end)}


def instants_of(intervals: Intervals) -> set[int]:
    intervals.self_check()
    starts, ends = (intervals.start - EPOCH).tolist(), (intervals.end - EPOCH).tolist()
    return instants(zip(starts, ends, strict=True))


@exact
@given(pair_lists)
def test_union_of_covers_the_same_instants(spans: list[tuple[int, int]]) -> None:
    intervals = built(spans)
    assert instants_of(intervals) == instants(spans)
    assert intervals.length_ns == len(instants(spans))


@exact
@given(pair_lists, pair_lists)
def test_operators_agree_with_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    left, right = built(a), built(b)
    assert instants_of(left | right) == instants(a) | instants(b)
    assert instants_of(left & right) == instants(a) & instants(b)
    assert instants_of(left - right) == instants(a) - instants(b)


@exact
@given(pair_lists, pair_lists, pair_lists)
def test_laws_of_sets(a: list[tuple[int, int]], b: list[tuple[int, int]], c: list[tuple[int, int]]) -> None:
    x, y, z = built(a), built(b), built(c)
    assert x.length_ns + y.length_ns == (x | y).length_ns + (x & y).length_ns
    assert x.length_ns == (x & y).length_ns + (x - y).length_ns
    assert x | y == y | x
    assert x & y == y & x
    assert (x | y) | z == x | (y | z)
    assert x & (y | z) == (x & y) | (x & z)
    assert x - (y | z) == (x - y) & (x - z)
    assert (x - y) | (x & y) == x
    assert x | x == x & x == x
    assert x - x == Intervals.empty()


@exact
@given(pair_lists, pairs)
def test_clip_and_gaps_share_the_window(spans: list[tuple[int, int]], window: tuple[int, int]) -> None:
    intervals = built(spans)
    lo, hi = EPOCH + window[0], EPOCH + window[1]
    inside, outside = intervals.clip(lo, hi), intervals.gaps(lo, hi)
    assert instants_of(inside) == instants(spans) & instants([window])
    assert instants_of(outside) == instants([window]) - instants(spans)
    assert inside.length_ns + outside.length_ns == hi - lo
    assert outside.gaps(lo, hi) == inside


@exact
@given(pair_lists)
def test_contains(spans: list[tuple[int, int]]) -> None:
    asked = range(LO - 1, HI + 2)
    expected = [moment in instants(spans) for moment in asked]
    assert built(spans).contains(times(asked)).tolist() == expected


@exact
@given(pair_lists, pair_lists)
def test_overlap_with_counts_each_window(spans: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    covered = built(spans).overlap_with(*columns(windows))
    assert covered.dtype == np.int64
    assert covered.tolist() == [len(instants(spans) & instants([window])) for window in windows]


@exact
@given(pair_lists, pair_lists)
def test_meets_windows_with_which_it_shares_time(spans: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    expected = [bool(instants(spans) & instants([window])) for window in windows]
    assert built(spans).meets(*columns(windows)).tolist() == expected


def test_touching_intervals_become_one() -> None:
    assert len(built([(3, 5), (0, 3)])) == 1


def test_the_whole_of_time_is_exact() -> None:
    far = 2**62
    whole = Intervals.union_of(np.array([-far + 1]), np.array([far - 1]))
    assert whole.length_ns == 2**63 - 2
    assert whole.overlap_with(np.array([-far + 1]), np.array([far - 1])).tolist() == [2**63 - 2]


def test_equality_with_something_else_is_false() -> None:
    assert Intervals.empty() != (0, 1)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ([1], [1, 2], "1 starts but 2 ends"),
        ([1, 5], [2, 5], "interval 1 is empty or ends before it starts"),
        ([1, 2], [2, 3], "intervals 0 and 1 overlap, touch or are out of order"),
    ],
)
def test_self_check_finds_what_is_wrong(start: list[int], end: list[int], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        Intervals(np.array(start, np.int64), np.array(end, np.int64)).self_check()


def test_self_check_wants_int64() -> None:
    with pytest.raises(AssertionError, match="start is a 1-d array of int32, not a 1-d array of int64"):
        Intervals(np.array([1], np.int32), np.array([2], np.int64)).self_check()


def test_bad_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"starts and ends must be 1-d and of one length, not \(1,\) and \(2,\)"):
        Intervals.union_of(np.array([1]), np.array([1, 2]))
    with pytest.raises(ValueError, match="interval 1 ends at 4, before it starts at 5"):
        Intervals.union_of(np.array([1, 5]), np.array([2, 4]))
    with pytest.raises(ValueError, match="the window ends at 1, before it starts at 2"):
        Intervals.empty().clip(2, 1)
    with pytest.raises(TypeError, match="float64"):
        Intervals.union_of(np.array([1.0]), np.array([2.0]))
