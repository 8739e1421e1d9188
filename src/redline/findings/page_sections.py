"""Pages with fixed headings in English and Chinese: how their files end, and what their parts are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

ENDINGS = {"en": ".md", "zh": ".zh-CN.md"}
"""Of the files of a page, by language."""

_TITLE = re.compile(r"^# (?P<name>[\w-]+(?::\w+)?)[:\uff1a] ?(?P<title>.+)$", re.MULTILINE)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class PageParts:
    """A page taken apart; Markdown."""

    name: str
    title: str
    parts: dict[str, str]


def split_page(text: str, language: str, sections: Mapping[str, tuple[str, str]], example: str) -> PageParts:
    """By headings in English and Chinese; raises ValueError where a part is missing, empty or out of order."""
    title = _TITLE.match(text)
    headings = [names[list(ENDINGS).index(language)] for names in sections.values()]
    pieces = _HEADING.split(text)
    if title is None or pieces[1::2] != headings:
        raise ValueError(f"a page is '# {example}: Title' and the parts {', '.join(headings)}; found {pieces[1::2]}")
    parts = dict(zip(sections, (part.strip() for part in pieces[2::2]), strict=True))
    if not all(parts.values()):
        raise ValueError(f"{title['name']}: empty: {[name for name, part in parts.items() if not part]}")
    return PageParts(title["name"], title["title"].strip(), parts)
