"""Documents as text on a terminal, and the text itself: how wide it is, where it breaks, and what may not stand in it.

Chinese letters take two columns each, and lines may break between them.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from redline.report.display import MARKS, PLAIN_COLUMNS, Style, columns, is_terminal, kept_marks, most_lines, styled
from redline.report.document import (
    Block,
    Commands,
    Document,
    Entries,
    Folded,
    Heading,
    Items,
    LabelledLines,
    Paragraph,
    ReportTable,
    StackedBars,
)

_CLOSING = "，。；：、）》”！？"  # never first on a line
_OPENING = "（《“"  # never last on one
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|x\b|[num]?s\b|[kMGTPE]?(?:B|FLOP)\b)")
_GLUE = "\u00a0"
_PIECE = re.compile(r"[ \n]+|[^ \n]+")
_GAP = "  "
_INDENT = 2  # columns before a table, as reports show it
_NARROWEST = 16  # columns of words: narrower ones are hard to read
BAR_WIDTH = 44
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_FULL, _RIGHT_HALF = "█", "▐"
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})  # control, direction marks, unassigned, line breaks

Row = Sequence[str]


def is_hidden(letter: str) -> bool:
    """Whether it is not seen itself, but may move the cursor, change the direction of others or break a line."""
    return unicodedata.category(letter) in _HIDDEN


def visible(line: str) -> str:
    """One line that does nothing to a terminal but stand there: ? for every hidden letter, line breaks too."""
    if line.isprintable():
        return line
    kept = kept_marks()
    return "".join("?" if is_hidden(letter) and letter not in kept else letter for letter in line)


def visible_lines(text: str) -> str:
    """Text whose line breaks are meant, and where nothing else is hidden."""
    return "\n".join(map(visible, text.split("\n")))


def as_text(blocks: Iterable[Iterable[str]]) -> str:
    """Blocks of lines with a blank line between them: how every report for a terminal is written.

    Names in them come from strangers' files. Here, and not where each name is put in, they are made harmless.
    """
    filled = [_headed(block) for block in map(tuple, blocks) if block]
    return "\n\n".join("\n".join(map(visible, block)) for block in filled) + "\n"


def _headed(block: tuple[str, ...]) -> tuple[str, ...]:
    """The first line of a block says what it is about, unless it has a style of its own."""
    first, *rest = block
    return block if MARKS.intersection(first) else (styled(first, Style.HEADING), *rest)


def width_of(text: str) -> int:
    """Columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if letter in MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fitted(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Lines as wide as the terminal; without one, a single line of any width, which is easier to search."""
    return wrapped(text, columns(), first, rest) if is_terminal() else [f"{first}{text}"]


def left(text: str, width: int) -> str:
    """With blanks behind it, up to so many columns."""
    return text + " " * (width - width_of(text))


def right(text: str, width: int) -> str:
    return " " * (width - width_of(text)) + text


def glued(text: str) -> str:
    """With blanks that do not break between numbers and their units."""
    return _BEFORE_UNIT.sub(_GLUE, text)


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Lines no wider than `width`, which never part a number from its unit; `first` and `rest` are before them."""
    indent = " " * width_of(first) if rest is None else rest
    lines, line, empty = [], first, True
    for piece in _pieces(glued(text)):
        if not empty and width_of(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line, empty = indent, True
        word = piece.lstrip() if empty else piece
        while empty and width_of(line + word.rstrip()) > width:  # longer than any line
            cut = _letters_within(word, width - width_of(line))
            lines.append(line + word[:cut])
            line, word = indent, word[cut:]
        line += word
        empty = empty and not word
    return [done.replace(_GLUE, " ") for done in [*lines, line.rstrip()]]


def _pieces(text: str) -> list[str]:
    """Between which a line may break: words with the blank before them, and single Chinese letters."""
    pieces: list[str] = []
    blank = ""
    for run in _PIECE.findall(text):
        if run.isspace():
            blank = " "
            continue
        pieces += _broken(blank + run)
        blank = ""
    return pieces


def _broken(run: str) -> list[str]:
    if run.isascii():
        return [run]
    pieces = [""]
    before = ""
    for letter in run:
        if letter in MARKS:
            pieces[-1] += letter
            continue
        parts = _is_wide(letter) or _is_wide(before)
        if parts and before.strip() and letter not in _CLOSING and before not in _OPENING:
            pieces.append("")
        pieces[-1] += letter
        before = letter
    return pieces


def _is_wide(letter: str) -> bool:
    return bool(letter) and unicodedata.east_asian_width(letter) in "WF"


def _letters_within(word: str, columns: int) -> int:
    count = 1
    while count < len(word) and width_of(word[: count + 1]) <= columns:
        count += 1
    return count


# --- tables -----------------------------------------------------------------------------------------------------------


def table(head: Row, rows: Iterable[Row]) -> list[str]:
    """Lines of a table, every column but those of words right-aligned under its head.

    On a terminal too narrow for it, words are broken into lines; where that is not enough, the columns that are left
    follow below, beside the first one again.
    """
    lines = [tuple(head), *(tuple(row) for row in rows)]
    is_number = [all(map(_is_amount, (row[place] for row in lines[1:]))) for place in range(len(head))]
    widths = [max(width_of(line[place]) for line in lines) for place in range(len(head))]
    places = list(range(len(head)))
    if not is_terminal() or _table_width(widths, places) <= columns() - _INDENT:
        return _aligned(lines, widths, is_number, places)
    return list(_fitted_table(lines, widths, is_number))


def _is_amount(cell: str) -> bool:
    """Numbers with their units, and what stands in the place of one; shapes like 16x64 are words."""
    return cell in ("", "-") or (cell.lstrip("<>+-")[:1].isdigit() and re.search(r"\dx\d", cell) is None)


def _table_width(widths: Sequence[int], places: Sequence[int]) -> int:
    return sum(widths[place] for place in places) + len(_GAP) * (len(places) - 1)


def _aligned(
    lines: Sequence[Row], widths: Sequence[int], is_number: Sequence[bool], places: Sequence[int]
) -> list[str]:
    """These columns of the lines; cells too wide for theirs are broken."""
    head, *rows = ([_broken_cell(line[place], widths[place]) for place in places] for line in lines)
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


def _broken_cell(cell: str, width: int) -> list[str]:
    if width_of(cell) <= width:
        return [cell]
    indent = " " * (len(cell) - len(cell.lstrip()))
    return wrapped(cell.lstrip(), width, indent)


# --- making it fit ----------------------------------------------------------------------------------------------------


def _fitted_table(lines: Sequence[Row], widths: Sequence[int], is_number: Sequence[bool]) -> Iterator[str]:
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
    if _table_width(least, range(len(least))) > most:  # columns have to go below each other, so there is room
        return [max(low, min(width, third)) for low, width in zip(least, column_widths, strict=True)]
    words = [_longest_word(lines, place) for place in range(len(column_widths))]
    while _table_width(column_widths, range(len(column_widths))) > most:
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
        if len(groups[-1]) > 1 and _table_width(widths, [*groups[-1], *needed]) > most:
            groups.append([0])
        groups[-1].append(place)
    return groups


# --- bars -------------------------------------------------------------------------------------------------------------


def bar(start: float, end: float, *, unicode: bool = True, width: int = BAR_WIDTH) -> str:
    """Positions are shares of the whole. Without `unicode` the bar is of plain letters."""
    return _drawn(start, end, width) if unicode else _plain(start, end, width)


def _drawn(start: float, end: float, width: int) -> str:
    """To a half of a cell at the left and an eighth at the right."""
    halves, eighths = round(start * width * 2), round(end * width * 8)
    eighths = max(eighths, halves * 4 + 1)  # what is there is seen
    blank, starts_in_half = divmod(halves, 2)
    if starts_in_half and eighths <= blank * 8 + 8:
        return " " * blank + _RIGHT_HALF
    first = blank + 1 if starts_in_half else blank
    full, rest = divmod(eighths - first * 8, 8)
    return " " * blank + (_RIGHT_HALF if starts_in_half else "") + _FULL * full + _EIGHTHS[rest]


def _plain(start: float, end: float, width: int) -> str:
    first, last = round(start * width), round(end * width)
    first = min(first, width - 1)
    return " " * first + "#" * max(last - first, 1)


# --- documents --------------------------------------------------------------------------------------------------------


def text_of(document: Document, *, unicode: bool = True) -> str:
    """Without `unicode`, bars and intervals are drawn with letters that every terminal has."""
    fold = _fitted_lines if document.has_long_lines else _wrapped_lines

    def lines_of(block: Block) -> Iterator[str]:
        if isinstance(block, Heading):
            yield from fold(styled(block.text, block.style), "", "  ")
        elif isinstance(block, LabelledLines):
            lines = [(label, text) for label, text in block.lines if text]
            yield from [block.title] if block.title and lines else []
            for label, text in lines:
                yield from fold(text, styled(f"{block.indent}{left(f'{label} ', block.width)}", Style.LABEL), None)
        elif isinstance(block, Items):
            yield from [block.title] if block.title and block.items else []
            yield from wrapped(block.about, columns(), block.mark) if block.about and block.items else []
            for number, item in enumerate(block.items, start=1):
                mark = f"{block.mark}{number}. " if block.is_numbered else block.mark
                text = styled(item, Style.SECONDARY) if block.is_faint else item
                yield from fold(text, styled(mark, block.style) if block.style else mark, block.rest)
        elif isinstance(block, Entries):
            yield from _entry_lines(block)
        elif isinstance(block, StackedBars):
            yield from _bar_lines(block, unicode=unicode)
        elif isinstance(block, Paragraph):
            yield from fold(block.text, "", None)
        elif isinstance(block, Commands):
            yield from _command_lines(block)
        elif isinstance(block, Folded):
            yield from block.content.split("\n") if isinstance(block.content, str) else table_lines(block.content)
        else:
            yield from table_lines(block)

    groups = (block if isinstance(block, tuple) else (block,) for block in document.blocks)
    text = as_text([line for block in group for line in lines_of(block)] for group in groups)
    return text if unicode else text.translate(_PLAIN)


_PLAIN = str.maketrans({"±": "~"})


def first_within(documents: Iterable[Document], lines: int) -> Document:
    """The first document of so many lines or fewer, of those that say less and less; else the last of them.

    The limit is that of plain text.
    """
    tried = Document(blocks=())
    for tried in documents:
        if text_of(tried).count("\n") <= most_lines(lines):
            break
    return tried


def _fitted_lines(text: str, first: str, rest: str | None) -> list[str]:
    return fitted(text, first, rest)


def _wrapped_lines(text: str, first: str, rest: str | None) -> list[str]:
    return wrapped(text, columns(), first, rest)


def table_lines(shown: ReportTable) -> list[str]:
    """Below its title, if it has one; what is said instead where there are no rows."""
    indent = shown.indent or ("  " if shown.title else "")
    if not shown.rows:
        return [line for line in (shown.title, f"{indent}{shown.empty}") if line] if shown.empty else []
    notes = [line for note in shown.notes for line in wrapped(styled(note, Style.SECONDARY), columns(), indent)]
    rows = [f"{indent}{line}".rstrip() for line in table(shown.head, shown.rows)]
    return [*([shown.title] if shown.title else []), *rows, *notes]


def _command_lines(block: Commands) -> Iterator[str]:
    """Commands are not broken: people copy them."""
    if block.title and block.lines:
        yield block.title
    for purpose, command in block.lines:
        yield from fitted(purpose, "  ")
        yield f"    {command}"


def _entry_lines(block: Entries) -> Iterator[str]:
    indent = "     "
    yield from [block.title] if block.title and block.entries else []
    for number, entry in enumerate(block.entries, start=1):
        yield from wrapped(styled(entry.head, Style.HEADING), columns(), f"  {number}. ")
        for line in entry.lines:
            yield from wrapped(line, columns(), indent)
        yield from wrapped(styled(entry.fix, Style.GAIN), columns(), indent) if entry.fix else []
    yield from [f"  {block.more}"] if block.more else []


def _bar_lines(bars: StackedBars, *, unicode: bool) -> Iterator[str]:
    if not bars.bars:
        return
    yield bars.title
    width = BAR_WIDTH + columns() - PLAIN_COLUMNS
    names = max(width_of(name) for name in (bars.total_name, *(part.name for part in bars.bars)))
    amounts = max(width_of(amount) for amount in (bars.total, *(part.amount for part in bars.bars)))
    for part in bars.bars:
        drawn = styled(bar(part.start, part.end, unicode=unicode, width=width), part.style)
        yield f"  {left(part.name, names)}  {right(part.amount, amounts)}  {part.share:>7}  {drawn}".rstrip()
    total = f"  {left(bars.total_name, names)}  {right(bars.total, amounts)}  {bars.total_share:>7}  "
    yield from wrapped(bars.of, columns(), total)
