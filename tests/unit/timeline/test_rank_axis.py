"""Times of several ranks on one line: what is done there is what would be done to each rank alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.timeline.intervals import Intervals
from redline.timeline.rank_axis import AT_ONCE, RankAxis, blocks_of

moments = st.integers(0, 20)
spans = st.lists(st.tuples(moments, moments).map(lambda pair: (min(pair), max(pair))), max_size=6)
ranks = st.lists(st.tuples(st.integers(-(10**15), 10**15), spans, spans), min_size=1, max_size=5)


def at(first_ns: int, of_rank: list[tuple[int, int]]) -> Intervals:
    starts, ends = np.array(of_rank, np.int64).reshape(-1, 2).T
    return Intervals.union_of(starts + first_ns, ends + first_ns)


@settings(deadline=None, max_examples=100)
@given(ranks)
def test_set_algebra_is_that_of_each_rank(job: list[tuple[int, list[tuple[int, int]], list[tuple[int, int]]]]) -> None:
    line = RankAxis.of([(first_ns, first_ns + 20) for first_ns, _, _ in job])
    left = [at(first_ns, of_rank) for first_ns, of_rank, _ in job]
    right = [at(first_ns, of_rank) for first_ns, _, of_rank in job]
    both, rest = line.joined(left) & line.joined(right), line.joined(left) - line.joined(right)
    both.self_check()
    assert line.split(both) == [one & other for one, other in zip(left, right, strict=True)]
    assert line.split(rest) == [one - other for one, other in zip(left, right, strict=True)]
    assert line.lengths_ns(both).tolist() == [time.length_ns for time in line.split(both)]


def test_what_reaches_beyond_a_window_ends_at_its_edge() -> None:
    line = RankAxis.of([(100, 110), (500, 520)])
    time = line.joined(
        [
            Intervals(np.array([80, 90, 109]), np.array([85, 105, 120])),
            Intervals(np.array([400, 530]), np.array([600, 540])),
        ]
    )
    time.self_check()
    assert line.split(time) == [
        Intervals(np.array([100, 109]), np.array([105, 110])),
        Intervals(np.array([500]), np.array([520])),
    ]


def test_blocks_have_each_rank_once() -> None:
    count = 2 * AT_ONCE + 3
    assert [place for block in blocks_of(count) for place in range(count)[block]] == list(range(count))
    assert list(blocks_of(0)) == []
