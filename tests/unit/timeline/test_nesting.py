"""Which span encloses which: the vectorised search agrees with the definition, on nested and on crossing spans."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.timeline.nesting import innermost_at, innermost_segments, nearest_of, parents_of, segments_under
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


@given(ANY_SPANS)
def test_segments_cut_the_covered_time_by_what_is_innermost(spans: list[Span]) -> None:
    starts, ends = ordered(spans)
    from_ns, to_ns, inner = innermost_segments(starts, ends)
    known = segments_under(starts, ends, parents_of(starts, ends)[0])
    assert [part.tolist() for part in known] == [part.tolist() for part in (from_ns, to_ns, inner)]
    cut = {
        time: (int(starts[row]), int(ends[row]))
        for start, end, row in zip(from_ns, to_ns, inner, strict=True)
        for time in range(start, end)
    }
    assert cut == {
        time: span for time in range(45) for span in [innermost_by_definition(time, spans)] if span is not None
    }


@pytest.mark.parametrize("depth", [1_000, 16_000])
def test_segments_of_spans_that_all_nest(depth: int) -> None:
    """At its end each of them is left for the one around it; once, every row climbed from the innermost."""
    starts, ends = np.arange(depth), 2 * depth - np.arange(depth)
    _, _, inner = segments_under(starts, ends, np.arange(-1, depth - 1))
    assert inner.tolist() == [*range(depth), *range(depth - 2, -1, -1)]


def test_a_point_is_inside_at_the_start_and_outside_at_the_end() -> None:
    found = innermost_at(np.array([10, 15, 20]), np.array([10]), np.array([20]))
    assert found.tolist() == [0, 0, -1]


@given(ANY_SPANS, st.lists(st.booleans(), max_size=40), st.lists(st.integers(-1, 40)))
def test_the_nearest_chosen_span_around_is_found_by_climbing(
    spans: list[Span], flags: list[bool], asked: list[int]
) -> None:
    starts, ends = ordered(spans)
    parents, _ = parents_of(starts, ends)
    chosen = np.array([index < len(flags) and flags[index] for index in range(len(spans))], bool)
    rows = np.array([row for row in asked if row < len(spans)], np.int64)
    expected = []
    for row in rows.tolist():
        at = row
        while at != -1 and not chosen[at]:
            at = int(parents[at])
        expected.append(at)
    assert nearest_of(chosen, parents, rows).tolist() == expected


class Counted(np.ndarray):
    """An array that counts how many of its rows were looked up."""

    looked_up = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        Counted.looked_up += np.size(found)
        return found


@pytest.mark.parametrize("depth", [1_000, 16_000])
def test_depth_costs_its_logarithm(depth: int) -> None:
    """Points at the ends of spans that all nest, as the time of operators is cut: once a row looked at every other."""
    starts, ends = np.arange(depth), 2 * depth - np.arange(depth)
    points = np.sort(ends)
    Counted.looked_up = 0
    ends_of_all = np.concatenate([ends, points]).view(Counted)
    parents, _ = parents_of(np.concatenate([starts, points]), ends_of_all)
    assert parents[depth:].tolist() == [*range(depth - 2, -1, -1), -1]
    nothing = np.zeros(len(parents), bool)
    assert (nearest_of(nothing, parents.view(Counted), np.arange(len(parents))) == -1).all()
    assert Counted.looked_up < 4 * len(parents) * math.log2(depth)
