"""Text on a terminal: columns, padding, and lines that break where a reader of the language expects it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.report.terminal import as_text, left, right, visible, visible_lines, width_of, wrapped


def test_chinese_letters_take_two_columns() -> None:
    assert (width_of("ab"), width_of("步 1"), width_of("▐█")) == (2, 4, 2)
    assert left("步", 4) == "步  "
    assert right("步", 4) == "  步"


def test_words_are_never_parted() -> None:
    assert wrapped("one two three", 9, "1. ") == ["1. one", "   two", "   three"]
    assert wrapped("one two three", 9, "1. ", rest="") == ["1. one", "two three"]
    assert wrapped("", 9, "1. ") == ["1."]


def test_a_number_keeps_its_unit() -> None:
    assert wrapped("it took 12 ms", 10) == ["it took", "12 ms"]
    assert wrapped("it is 4.5 x as", 10) == ["it is", "4.5 x as"]


def test_a_word_longer_than_a_line_is_cut() -> None:
    assert wrapped("abcdefgh ij", 4, "- ") == ["- ab", "  cd", "  ef", "  gh", "  ij"]


def test_chinese_breaks_between_letters_but_not_before_a_comma() -> None:
    assert wrapped("设备空闲，等待", 8) == ["设备空", "闲，等待"]
    assert wrapped("一（二三", 4) == ["一", "（二", "三"]
    assert wrapped("等待 kernel 启动", 11) == ["等待 kernel", "启动"]


@given(st.text(alphabet="ab 步，。（x1%", max_size=60), st.integers(8, 30))
def test_nothing_is_lost_and_no_line_is_too_wide(text: str, width: int) -> None:
    lines = wrapped(text, width, "- ")
    assert all(width_of(line) <= width + 2 for line in lines)
    assert "".join("".join(lines)[2:].split()) == "".join(text.split())


# what may not stand on a terminal


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
    assert visible(text) == shown


@given(st.text())
def test_nothing_hidden_ever_passes(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
    shown.encode()


def test_lines_that_are_meant_stay_lines() -> None:
    assert visible_lines("one\ntwo\r\x1bthree") == "one\ntwo??three"


def test_a_report_is_blocks_of_lines_in_which_no_name_breaks_a_line() -> None:
    assert as_text([["head"], [], ["a\nb", "c\x9b"]]) == "head\n\na?b\nc?\n"
