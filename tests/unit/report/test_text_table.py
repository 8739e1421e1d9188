"""Tables fit the terminal, and lose nothing on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.report.display import Display, displaying
from redline.report.terminal import table, width_of

HEAD = ("operator", "shapes", "calls", "bus bandwidth", "")
ROWS = [
    ("aten::convolution_backward", "128x512x1x1 512x512x3x3", "12", "203 GB/s", "16.8 %"),
    ("aten::addmm", "16x64", "7", "-", "-"),
]


def fitted(columns: int) -> list[str]:
    with displaying(Display(columns=columns, is_terminal=True)):
        return table(HEAD, ROWS)


def test_a_pipe_gets_the_whole_width() -> None:
    assert table(HEAD, ROWS) == [
        "operator                    shapes                   calls  bus bandwidth",
        "aten::convolution_backward  128x512x1x1 512x512x3x3     12       203 GB/s  16.8 %",
        "aten::addmm                 16x64                        7              -       -",
    ]


def test_a_terminal_with_room_gets_the_same() -> None:
    assert fitted(100) == table(HEAD, ROWS)


def test_heads_and_words_are_broken_first() -> None:
    assert fitted(72) == [
        "operator                    shapes            calls        bus",
        "                                                     bandwidth",
        "aten::convolution_backward  128x512x1x1          12   203 GB/s  16.8 %",
        "                            512x512x3x3",
        "aten::addmm                 16x64                 7          -       -",
    ]


def test_then_columns_go_below_and_a_column_without_a_head_stays_with_its_own() -> None:
    assert fitted(60) == [
        "operator            shapes              calls",
        "aten::convolution_  128x512x1x1            12",
        "backward            512x512x3x3",
        "aten::addmm         16x64                   7",
        "",
        "operator                  bus",
        "                    bandwidth",
        "aten::convolution_   203 GB/s  16.8 %",
        "backward",
        "aten::addmm                 -       -",
    ]


CELLS = st.sampled_from(
    ["", "-", "7", "12.5 %", "203 GB/s", "aten::addmm", "a few words here", "等待其他 rank", "x" * 40]
)


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=4),
    st.integers(min_value=60, max_value=160),
)
def test_no_letter_is_lost_and_no_line_is_too_wide(rows: list[tuple[str, ...]], columns: int) -> None:
    head = ("name", "first", "second one", "", "fourth", "a long head of words")
    with displaying(Display(columns=columns, is_terminal=True)):
        lines = table(head, rows)
    assert max(map(width_of, lines)) <= columns - 2
    shown = sorted("".join(lines).replace(" ", ""))
    for letter in set("".join("".join(row) for row in rows).replace(" ", "")):
        assert shown.count(letter) >= sum("".join(row).count(letter) for row in rows)


@pytest.mark.parametrize("columns", [60, 80])
def test_indented_cells_keep_their_indent(columns: int) -> None:
    with displaying(Display(columns=columns, is_terminal=True)):
        lines = table(("family", "A"), [("  a figure with a name of many words, far too long for one line", "1")])
    assert all(line.startswith("  ") for line in lines[1:])
