"""Small pieces of text that every report uses."""

import pytest

from redline.report.terminal import table
from redline.report.text_parts import clipped, plural, rank_list, share


@pytest.mark.parametrize(
    ("text", "shown"), [("x" * 10, "x" * 10), ("x" * 11, "xxxxxxx..."), ("x" * 10_000, "xxxxxxx..."), ("", "")]
)
def test_long_texts_are_cut(text: str, shown: str) -> None:
    assert clipped(text, limit=10) == shown


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(1, 8, "12.5 %"), (0, 5, "0.0 %"), (5, 5, "100.0 %"), (3, 0, "-"), (0, 0, "-")]
)
def test_shares(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 3], "0-3"),
        ([12, 0, 9, 1, 10, 2, 11, 7], "0-2, 7, 9-12"),
        ([4, 5], "4-5"),
        (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 8 more"),
    ],
)
def test_runs_of_ranks_are_folded(ranks: list[int], text: str) -> None:
    assert rank_list(ranks) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (16384, "16,384 ranks")])
def test_plurals(count: int, text: str) -> None:
    assert plural(count, "rank") == text


def test_numbers_are_aligned_right_and_words_left() -> None:
    lines = table(("rank", "name", "time"), [("0", "a", "1.5 ms"), ("10", "long", "-")])
    assert lines == ["rank  name    time", "   0  a     1.5 ms", "  10  long       -"]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(("a", "b"), []) == ["a  b"]


def test_no_line_ends_in_blanks() -> None:
    lines = table(("name", "words"), [("one", ""), ("two", "x")])
    assert lines == ["name  words", "one", "two   x"]
