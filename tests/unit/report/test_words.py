"""Small pieces of text that every report uses: nothing from a trace can harm a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.report.words import plural, printable, rank_list, share, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::mm", "aten::mm"),
        ("käse 中文 😀", "käse 中文 😀"),
        ("\x1b[31mred", "?[31mred"),
        ("\x1b]0;title\x07", "?]0;title?"),
        ("\x9b2J", "?2J"),  # the one-letter form of the same
        ("one\ntwo\rthree\ttabs", "one?two?three?tabs"),
        ("a\u202eb\u2066c\u200ed", "a?b?c?d"),  # marks that turn the direction of text
        ("line\u2028para\u2029", "line?para?"),
        ("zero\u200bwidth\ufeff", "zero?width?"),
        ("private\ue000 unassigned\U000e0080", "private? unassigned?"),
        ("half\ud800", "half?"),
        ("\0\b\x7f", "???"),
    ],
)
def test_what_could_move_the_cursor_or_turn_the_text_is_shown_as_a_mark(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(), st.integers(4, 50))
def test_nothing_hidden_ever_passes(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"), [("x" * 10, "x" * 10), ("x" * 11, "xxxxxxx..."), ("x" * 10_000, "xxxxxxx..."), ("", "")]
)
def test_long_texts_are_cut(text: str, shown: str) -> None:
    assert printable(text, limit=10) == shown


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
