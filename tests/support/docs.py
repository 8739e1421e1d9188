"""Pages of the documentation, and what stands in them."""

import re
from pathlib import Path

from redline.cli.options import options_of
from redline.cli.verb_table import declared_options

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HEADING = re.compile(r"^(#+) +(.*?) *$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def section(page: Path, heading: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    text = page.read_text()
    for match in HEADING.finditer(text):
        if match[2].replace("`", "") == heading:
            rest = text[match.end() :]
            ends = (other.start() for other in HEADING.finditer(rest) if len(other[1]) <= len(match[1]))
            return rest[: next(ends, len(rest))]
    raise AssertionError(f"{name_of(page)} has no heading {heading!r}")


def rows_of(text: str) -> list[list[str]]:
    """Cells of every table row in the text, without heads and rules."""
    lines = text.splitlines()
    rules = {number for number, line in enumerate(lines) if re.fullmatch(r"\|[-:| ]+\|", line)}
    return [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for number, line in enumerate(lines)
        if line.startswith("|") and not {number, number + 1} & rules
    ]


def first_words_of_options(verb: str) -> set[str]:
    """Each option as a page on its verb writes it: by its first name."""
    return {
        f"`{option.names[0]} {option.metavar or ''}".strip() + "`"
        for option in options_of(declared_options()[verb])
        if option.names
    }
