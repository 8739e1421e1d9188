"""The pages of the findings: title, cause, fixes and sources of each, in English or Chinese.

They are documents under docs/findings; the wheel carries them beside this module.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from redline.capture.lever_kinds import KINDS
from redline.errors import UsageError
from redline.values import dataclass

ENDINGS = {"en": ".md", "zh": ".zh-CN.md"}
"""Endings of the files of a page, by language."""

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


SECTIONS = {
    "symptom": ("What is seen", "现象"),
    "cause": ("Cause", "原因"),
    "smallest_fix": ("Smallest fix", "最小改动"),
    "thorough_fix": ("Thorough fix", "彻底解决"),
    "bound": ("Bound", "收益上限"),
    "numerics": ("Numerics", "数值影响"),
    "ignore": ("When to ignore it", "何时可以忽略"),
    "fooled": ("How it can be fooled", "何时会误判"),
    "sources": ("Sources", "来源"),
}
"""Parts of a page in their order, with their headings in English and in Chinese."""

_IN_WHEEL = Path(__file__).with_name("documents")
_IN_CHECKOUT = Path(__file__).parents[3] / "docs" / "findings"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page about a finding, whatever the job; Markdown."""

    code: str
    title: str  # in the imperative
    symptom: str
    cause: str
    smallest_fix: str
    thorough_fix: str
    bound: str
    numerics: str
    ignore: str
    fooled: str
    sources: str
    text: str  # the whole page


def page_of(code: str, language: str = "en") -> Page:
    """In English where the page has not been translated."""
    path = folder() / f"{code}{ENDINGS[language]}"
    if language != "en" and not path.exists():
        return page_of(code)
    return parsed(path.read_text(encoding="utf-8"), language)


def folder() -> Path:
    """Where the pages are: in a checkout they are documents like the others."""
    return _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT


def codes(language: str = "en") -> list[str]:
    """Codes of all findings that have a page in this language."""
    paths = folder().glob(f"RL-*{ENDINGS[language]}")
    return sorted(path.name.split(".")[0] for path in paths if path.name.count(".") == ENDINGS[language].count("."))


def request_codes() -> list[str]:
    """Codes of the causes for which requests of a serving engine wait; all other pages are of rules about steps."""
    return [code for code in codes() if code.startswith("RL-V")]


def parsed(text: str, language: str) -> Page:
    """Raises ValueError where a part is missing or out of order."""
    page = split_page(text, language, SECTIONS, "RL-X01")
    return Page(code=page.name, title=page.title, text=text, **page.parts)


_CODE = re.compile(r"RL-[A-Z]{1,2}[0-9]{1,2}")


def find_pages(text: str, language: str = "en") -> list[Page]:
    """The page of a code (RL-H01, rl-h01 or h01), else all pages with these words, in English or in this language.

    Words are looked for in code, title, symptom and cause; where no page has them there, anywhere. Titles come first.
    """
    known = codes()
    code = f"RL-{text.upper().removeprefix('RL-')}"
    if code in known:
        return [page_of(code, language)]
    pages = [(page_of(code), page_of(code, language)) for code in known]
    words = text.lower().split()
    about = [pair for pair in pages if _mentions(words, map(_summary, pair))]
    matching = about or [pair for pair in pages if _mentions(words, (page.text for page in pair))]
    if not matching:
        raise UsageError(f"explain: no finding or lever matches {text!r}. {_instead(text, code, known)}")
    in_title = [pair for pair in matching if _mentions(words, (page.title for page in pair))]
    return [page for _english, page in (*in_title, *(pair for pair in matching if pair not in in_title))]


def _instead(text: str, code: str, known: Iterable[str]) -> str:
    near = [known_code for known_code in known if known_code.startswith(code[:4])] if _CODE.fullmatch(code) else []
    if near:
        return f"Similar codes: {', '.join(near)}"
    levers = get_close_matches(text.lower(), KINDS)
    return f"Similar levers: {', '.join(levers)}" if levers else "`redline explain` lists all findings and levers"


def _summary(page: Page) -> str:
    return "\n".join((page.code, page.title, page.symptom, page.cause))


def _mentions(words: Sequence[str], texts: Iterable[str]) -> bool:
    """All words are there. Chinese has no blanks between words; others are found by their beginning."""
    text = "\n".join(texts).lower()
    return all(re.search(("" if not word.isascii() else r"(?<![a-z0-9])") + re.escape(word), text) for word in words)
