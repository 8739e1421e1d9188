"""A document: what a verb has to say, in blocks. A renderer knows blocks and no verb; a verb knows no renderer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from operator import attrgetter
from typing import Any

from redline.report.display import Style
from redline.values import dataclass


@dataclass(frozen=True)
class ReportColumn:
    """A column, declared once: its name for programs, its title for people, how a cell is read, and how it is shown."""

    name: str
    title: str = ""
    show: Callable[[Any], str] = str
    read: Callable[[Any], Any] | None = None  # the attribute of that name, unless it is said
    kind: str = "text"  # for programs: text, code (words of ours), whole (never missing), number

    def value(self, row: object) -> Any:
        return (self.read or attrgetter(self.name))(row)


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """Cells under their heads, and what is to be said below them."""

    title: str = ""
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    empty: str = ""  # what is said instead where there are no rows
    name: str = ""  # on a page, for its scripts
    indent: str = ""  # on a terminal; as much as below a title unless it is said


def table_of(
    columns: Iterable[ReportColumn],
    rows: Iterable[object],
    *,
    title: str = "",
    notes: Iterable[str] = (),
    empty: str = "",
) -> ReportTable:
    """The cells of these rows, as people read them."""
    columns = tuple(columns)
    return ReportTable(
        title=title,
        head=tuple(column.title for column in columns),
        rows=tuple(tuple(column.show(column.value(row)) for column in columns) for row in rows),
        notes=tuple(notes),
        empty=empty,
    )


def titled(name: str, title: str, table: ReportTable | None) -> tuple[ReportTable, ...]:
    """As a page has it: by name for its scripts, under a title of the page; none where there are no rows."""
    return named(name, table and replace(table, title=title))


def named(name: str, table: ReportTable | None) -> tuple[ReportTable, ...]:
    """The same under its own title."""
    return (replace(table, name=name),) if table is not None and table.rows else ()


def capital(text: str) -> str:
    """A text that begins a line of a page."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The sentence that comes first."""

    text: str
    style: Style = Style.HEADING


@dataclass(frozen=True, kw_only=True)
class LabelledLines:
    """Facts, each beside its label; those without a text are left out."""

    lines: tuple[tuple[str, str], ...]
    width: int = 10
    indent: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Items:
    """Sentences below each other, each after a mark or its number."""

    items: tuple[str, ...]
    title: str = ""
    about: str = ""  # below the title
    is_numbered: bool = False
    mark: str = "  "
    rest: str | None = None  # before the further lines of an item; blanks as wide as the mark unless it is said
    style: Style | None = None  # of the mark
    is_faint: bool = False
    is_folded: bool = False  # on a page, below its title


@dataclass(frozen=True, kw_only=True)
class StackedPart:
    """One part of a whole; positions are shares of it."""

    code: str
    name: str
    amount: str
    share: str
    start: float
    end: float
    colour: str = ""  # of the style sheet of pages
    style: Style = Style.LABEL  # on a terminal


@dataclass(frozen=True, kw_only=True)
class StackedBars:
    """A whole by its parts, drawn one after the other."""

    title: str
    bars: tuple[StackedPart, ...]
    total_name: str
    total: str
    total_share: str = ""
    of: str = ""  # what the whole bar is, where that is more than the total
    limit: float = 1.0  # where a limit lies, as a share of what the bars are drawn against; 1 where there is none


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Said between the others."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What is typed next, each below what it is for."""

    lines: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Folded:
    """What opens below its title: a table, or Markdown of a page of ours; a comment is read from its first lines."""

    title: str
    content: ReportTable | str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One of several things to know: in a few words, what supports it, and what to do about it."""

    head: str
    lines: tuple[str, ...] = ()
    fix: str = ""
    details: Folded | None = None  # of a comment, instead of the fix


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Entries by their numbers, the first one first."""

    entries: tuple[Entry, ...]
    title: str = ""
    more: str = ""  # how many are left out


Block = Heading | LabelledLines | Items | Entries | ReportTable | StackedBars | Paragraph | Commands | Folded


@dataclass(frozen=True, kw_only=True)
class Document:
    """Blocks in their order; those that stand together on a terminal, without a blank line between, are a tuple."""

    blocks: tuple[Block | tuple[Block, ...], ...]
    has_long_lines: bool = False  # in a pipe a line is as long as its text, which is easier to search


# --- pages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One figure at the top of a page: what it is, how much, and what else to know."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What a script draws, by its name, from these data."""

    name: str
    data: Mapping[str, Any]
    title: str = ""
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class TemplateDrawing:
    """What a template of its own draws from these values, without a script."""

    template: str
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Code:
    """Text to copy, and what to say before it; folded below `summary` if there is one."""

    text: str
    about: str = ""
    summary: str = ""


PageBlock = ReportTable | LabelledLines | Items | StackedBars | Chart | TemplateDrawing | Code | Paragraph | Folded


@dataclass(frozen=True, kw_only=True)
class Section:
    """Blocks under a title; one without any is left out."""

    name: str = ""
    link: str = ""  # to it, from the top of the page
    title: str = ""
    blocks: tuple[PageBlock, ...]
    style: str = ""  # a class of the style sheet


@dataclass(frozen=True, kw_only=True)
class PageDocument:
    """A document as one file for a browser."""

    title: str
    headline: str
    said: tuple[str, ...] = ()
    caution: str = ""  # before the last of what is said
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...]
    drawers: tuple[str, ...] = ()  # files of scripts that draw its charts
    words: Mapping[str, str] = field(default_factory=dict)  # of its scripts
