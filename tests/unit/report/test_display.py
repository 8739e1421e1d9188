"""How wide a report is, and which marks are in it."""

import io
import os
import pty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.cli.paint import painted
from redline.report.display import END_MARK, MARKS, PLAIN, Display, Style, columns, display_of, displaying, styled
from redline.report.terminal import as_text, table, visible, width_of, wrapped

COLOURED = Display(columns=80, is_terminal=True, has_colour=True)


def test_pipes_files_and_closed_streams_are_plain() -> None:
    closed = io.StringIO()
    closed.close()
    assert [display_of(stream) for stream in (io.StringIO(), closed, None)] == [PLAIN] * 3
    assert columns() == 100
    assert styled("limit", Style.LIMIT) == "limit"


@pytest.mark.parametrize(
    ("said", "shown"), [("80", 80), ("20", 60), ("500", 160), ("", 100), ("wide", 100), ("\u0664", 100)]
)
def test_columns_that_the_user_says_come_first(monkeypatch: pytest.MonkeyPatch, said: str, shown: int) -> None:
    monkeypatch.setenv("COLUMNS", said)
    master, slave = pty.openpty()  # says 0 columns
    with os.fdopen(slave, "w") as stream:
        assert display_of(stream).columns == shown
    os.close(master)


def test_marks_take_no_columns_and_are_never_alone_on_a_line() -> None:
    with displaying(COLOURED):
        text = f"一二三四{styled('五六', Style.GAIN)}，七八"
        lines = wrapped(text, 12)
    assert width_of(text) == 18
    assert ["".join(letter for letter in line if letter not in MARKS) for line in lines] == ["一二三四五", "六，七八"]
    assert lines[0].count(END_MARK) == 0
    assert lines[1].startswith(f"六{END_MARK}，")


def test_marks_of_strangers_are_hidden_letters() -> None:
    assert visible(f"a{END_MARK}b\x1b") == "a?b?"
    with displaying(COLOURED):
        assert visible(f"a{END_MARK}b\x1b") == f"a{END_MARK}b?"


def test_the_first_line_of_a_block_is_its_heading() -> None:
    assert as_text([["title", "  row"]]) == "title\n  row\n"
    with displaying(COLOURED):
        assert as_text([["title", "  row"]]) == f"{styled('title', Style.HEADING)}\n  row\n"
        assert as_text([[styled("label", Style.LABEL) + " text"]]) == f"{styled('label', Style.LABEL)} text\n"


def test_painting_knows_no_other_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with displaying(COLOURED):
        text = styled(f"a {styled('b', Style.GAIN)} c\x1b[2J", Style.HEADING) + "d\n"
    assert painted(text) == "\x1b[1ma \x1b[0m\x1b[1;32mb\x1b[0m\x1b[1m c?[2J\x1b[0md\n"
    assert painted(f"{END_MARK}{END_MARK}d") == "d"


# Tables fit the terminal, and lose nothing on the way.

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
