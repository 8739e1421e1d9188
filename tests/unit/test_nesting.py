"""Which span encloses which: the vectorised search agrees with the definition, on nested and on crossing spans."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.timeline.nesting import innermost_at, parents_of
from redline.timeline.table import I64

Span = tuple[int, int]  # start, end

ANY_SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))))


@st.composite
def nested_spans(draw: st.DrawFn, low: int = 0, high: int = 64) -> list[Span]:
    """A laminar family: any two spans are apart or one holds the other; edges may touch, spans may be empty."""
    spans: list[Span] = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(low, high))
        end = draw(st.integers(start, high))
        spans.append((start, end))
        if end - start > 1:
            spans += draw(nested_spans(start, end))
        low = end
    return spans


def ordered(spans: list[Span]) -> tuple[I64, I64]:
    """Starts and ends by start, and longest first where starts agree, as rows of a lane are."""
    rows = sorted(spans, key=lambda span: (span[0], -span[1]))
    return np.array([start for start, _ in rows], np.int64), np.array([end for _, end in rows], np.int64)


def parent_by_definition(starts: I64, ends: I64, row: int) -> int:
    """The nearest row before it that ends no earlier and has not ended when it begins."""
    holds = [one for one in range(row) if ends[one] >= ends[row] and ends[one] > starts[row]]
    return max(holds, default=-1)


def crosses_by_definition(starts: I64, ends: I64, row: int, floor_ns: int) -> bool:
    """Whether it outlives a span that it begins in; what its own parent crosses is the parent's affair."""
    inside = range(parent_by_definition(starts, ends, row) + 1, row)
    return any(ends[one] < ends[row] and ends[one] - starts[row] > floor_ns for one in inside)


@given(nested_spans())
def test_parents_in_a_laminar_family(spans: list[Span]) -> None:
    starts, ends = ordered(spans)
    parents, crossing = parents_of(starts, ends, crossing_floor_ns=0)
    assert parents.tolist() == [parent_by_definition(starts, ends, row) for row in range(len(starts))]
    assert not crossing.any()


@given(ANY_SPANS)
def test_parents_of_crossing_spans(spans: list[Span]) -> None:
    starts, ends = ordered(spans)
    parents, _ = parents_of(starts, ends)
    assert parents.tolist() == [parent_by_definition(starts, ends, row) for row in range(len(starts))]


@given(ANY_SPANS, st.integers(0, 4))
def test_crossing_is_beginning_inside_a_span_and_outliving_it(spans: list[Span], floor_ns: int) -> None:
    starts, ends = ordered(spans)
    _, crossing = parents_of(starts, ends, floor_ns)
    assert crossing.tolist() == [crosses_by_definition(starts, ends, row, floor_ns) for row in range(len(starts))]


@given(ANY_SPANS)
def test_a_parent_always_comes_earlier_so_there_is_no_cycle(spans: list[Span]) -> None:
    starts, ends = ordered(spans)
    parents, _ = parents_of(starts, ends)
    assert (parents < np.arange(len(starts))).all()
    has = parents >= 0
    assert (starts[parents[has]] <= starts[has]).all()
    assert (ends[parents[has]] >= ends[has]).all()


def test_the_example_of_the_docstring() -> None:
    starts, ends = np.array([0, 2, 5, 6]), np.array([12, 4, 10, 8])
    parents, crossing = parents_of(starts, ends)
    assert parents.tolist() == [-1, 0, 0, 2]
    assert crossing.tolist() == [False] * 4


def test_of_equal_spans_the_first_holds_the_second() -> None:
    parents, _ = parents_of(np.array([3, 3, 3]), np.array([9, 9, 9]))
    assert parents.tolist() == [-1, 0, 1]


def test_a_span_without_length_is_inside_what_runs_there_and_holds_nothing() -> None:
    starts, ends = np.array([0, 5, 5, 10]), np.array([10, 5, 5, 10])
    assert parents_of(starts, ends)[0].tolist() == [-1, 0, 0, -1]


def test_less_than_the_grain_of_the_clock_is_no_crossing() -> None:
    starts, ends = np.array([0, 5_000]), np.array([6_000, 9_000])
    assert parents_of(starts, ends)[1].tolist() == [False, False]
    assert parents_of(starts, ends + np.array([1, 0]))[1].tolist() == [False, True]


def test_no_spans_at_all() -> None:
    nothing = np.empty(0, np.int64)
    parents, crossing = parents_of(nothing, nothing)
    assert (len(parents), len(crossing)) == (0, 0)
    assert innermost_at(np.array([1]), nothing, nothing).tolist() == [-1]
    assert innermost_at(nothing, np.array([1]), np.array([2])).tolist() == []


def innermost_by_definition(point: int, spans: list[Span]) -> Span | None:
    """Of the spans that cover the point, the latest to begin, and of those the first to end."""
    around = [span for span in spans if span[0] <= point < span[1]]
    return max(around, key=lambda span: (span[0], -span[1]), default=None)


@given(st.lists(st.integers(-2, 45)), ANY_SPANS)
def test_innermost_at_points(points: list[int], spans: list[Span]) -> None:
    found = innermost_at(
        np.array(points, np.int64),
        np.array([start for start, _ in spans], np.int64),
        np.array([end for _, end in spans], np.int64),
    )
    assert [spans[index] if index >= 0 else None for index in found.tolist()] == [
        innermost_by_definition(point, spans) for point in points
    ]


def test_a_point_is_inside_at_the_start_and_outside_at_the_end() -> None:
    found = innermost_at(np.array([10, 15, 20]), np.array([10]), np.array([20]))
    assert found.tolist() == [0, 0, -1]
