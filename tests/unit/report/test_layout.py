"""Text on a terminal: columns, padding, and lines that break where a reader of the language expects it."""

from hypothesis import given
from hypothesis import strategies as st

from redline.report.layout import left, right, width_of, wrapped


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
