"""Tables of text: columns aligned, and on a terminal made to fit its width without losing a cell."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from redline.report.display import Style, columns, is_terminal, styled
from redline.report.terminal import left, right, width_of, wrapped

_GAP = "  "
_INDENT = 2  # columns before a table, as reports show it
_NARROWEST = 16  # columns of words: narrower ones are hard to read

Row = Sequence[str]


def table(head: Row, rows: Iterable[Row]) -> list[str]:
    """Lines of a table, every column but those of words right-aligned under its head.

    On a terminal too narrow for it, words are broken into lines; where that is not enough, the columns that are left
    follow below, beside the first one again.
    """
    lines = [tuple(head), *(tuple(row) for row in rows)]
    is_number = [all(map(_is_amount, (row[place] for row in lines[1:]))) for place in range(len(head))]
    widths = [max(width_of(line[place]) for line in lines) for place in range(len(head))]
    places = list(range(len(head)))
    if not is_terminal() or _width(widths, places) <= columns() - _INDENT:
        return _aligned(lines, widths, is_number, places)
    return list(_fitted(lines, widths, is_number))


def _is_amount(cell: str) -> bool:
    """Numbers with their units, and what stands in the place of one; shapes like 16x64 are words."""
    return cell in ("", "-") or (cell.lstrip("<>+-")[:1].isdigit() and re.search(r"\dx\d", cell) is None)


def _width(widths: Sequence[int], places: Sequence[int]) -> int:
    return sum(widths[place] for place in places) + len(_GAP) * (len(places) - 1)


def _aligned(
    lines: Sequence[Row], widths: Sequence[int], is_number: Sequence[bool], places: Sequence[int]
) -> list[str]:
    """These columns of the lines; cells too wide for theirs are broken."""
    head, *rows = ([_broken(line[place], widths[place]) for place in places] for line in lines)
    shape = [(widths[place], is_number[place]) for place in places]
    return [
        *(styled(line, Style.LABEL) for line in _beside(head, shape)),
        *(line for row in rows for line in _beside(row, shape)),
    ]


def _beside(cells: Sequence[Sequence[str]], shape: Sequence[tuple[int, bool]]) -> Iterator[str]:
    for parts in zip_longest(*cells, fillvalue=""):
        aligned = (
            right(part, width) if number else left(part, width)
            for part, (width, number) in zip(parts, shape, strict=True)
        )
        yield _GAP.join(aligned).rstrip()


def _broken(cell: str, width: int) -> list[str]:
    if width_of(cell) <= width:
        return [cell]
    indent = " " * (len(cell) - len(cell.lstrip()))
    return wrapped(cell.lstrip(), width, indent)


# --- making it fit ----------------------------------------------------------------------------------------------------


def _fitted(lines: Sequence[Row], widths: Sequence[int], is_number: Sequence[bool]) -> Iterator[str]:
    narrowed = _narrowed(lines, widths, is_number)
    for number, places in enumerate(_groups(lines[0], narrowed)):
        if number:
            yield ""
        yield from _aligned(lines, narrowed, is_number, places)


def _narrowed(lines: Sequence[Row], widths: Sequence[int], is_number: Sequence[bool]) -> list[int]:
    """Heads of numbers break between their words; then words give way as far as they must, the widest
    column first, and none is cut while there is another way."""
    most = columns() - _INDENT
    third = (most - 2 * len(_GAP)) // 3
    column_widths = [
        _unbroken(lines, place) if number else width
        for place, (width, number) in enumerate(zip(widths, is_number, strict=True))
    ]
    least = [
        width if number else min(width, max(_NARROWEST, min(_longest_word(lines, place), third)))
        for place, (width, number) in enumerate(zip(column_widths, is_number, strict=True))
    ]
    if _width(least, range(len(least))) > most:  # columns have to go below each other, so there is room
        return [max(low, min(width, third)) for low, width in zip(least, column_widths, strict=True)]
    words = [_longest_word(lines, place) for place in range(len(column_widths))]
    while _width(column_widths, range(len(column_widths))) > most:
        wider = (place for place in range(len(column_widths)) if column_widths[place] > least[place])
        column_widths[max(wider, key=lambda place: (column_widths[place] > words[place], column_widths[place]))] -= 1
    return column_widths


def _unbroken(lines: Sequence[Row], place: int) -> int:
    """Of a column of numbers, which are never broken; its head may be, between words."""
    head, *cells = (line[place] for line in lines)
    return max(map(width_of, (*head.split(), *cells, "")))


def _longest_word(lines: Sequence[Row], place: int) -> int:
    return max(width_of(word) for line in lines for word in (*line[place].split(), ""))


def _groups(head: Row, widths: Sequence[int]) -> list[list[int]]:
    """Columns that stand side by side; each group begins with the first column, and one without a head stays with the
    column before it where there is room."""
    most = columns() - _INDENT
    groups = [[0]]
    for place in range(1, len(widths)):
        following = [later for later in range(place + 1, len(head)) if not any(head[place + 1 : later + 1])]
        needed = [place, *following] if head[place] else [place]
        if len(groups[-1]) > 1 and _width(widths, [*groups[-1], *needed]) > most:
            groups.append([0])
        groups[-1].append(place)
    return groups
